// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks definitions backwards.

#include "passes/codegen/ConstantValues.h"

#include "dialects/dist/Dist.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

bool ConstantValues::contains(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  bool constant = op && isPure(op) && !op->hasAttr(dist::changesAttrName) &&
                  llvm::all_of(op->getOperands(), [&](Value operand) { return contains(operand); });
  known[value] = constant;
  return constant;
}

} // namespace cleave
