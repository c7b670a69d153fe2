// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks definitions backwards.

#include "passes/codegen/ConstantValues.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

bool ConstantValues::readsWritten(Operation *op) {
  FlatSymbolRefAttr parameter;
  if (auto read = dyn_cast<dfg::ReadOp>(op))
    parameter = read.getParameterAttr();
  else if (auto shard = dyn_cast<dist::ShardOfOp>(op))
    parameter = shard.getParameterAttr();
  else
    return false;
  auto [entry, isNew] = written.try_emplace(op->getBlock());
  if (isNew)
    for (auto write : op->getBlock()->getOps<dist::WriteOp>())
      entry->second.insert(write.getParameterAttr());
  return entry->second.contains(parameter);
}

bool ConstantValues::contains(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  bool constant = op && isPure(op) && !readsWritten(op) &&
                  llvm::all_of(op->getOperands(), [&](Value operand) { return contains(operand); });
  known[value] = constant;
  return constant;
}

} // namespace cleave
