// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One walk in the order of the data.

#include "passes/planner/NarrowOperators.h"

using namespace mlir;

namespace cleave {

NarrowOperators::NarrowOperators(dfg::GraphOp graph) {
  Block &body = graph.getBody().front();
  fromInputs.insert(body.args_begin(), body.args_end());
  for (Operation &op : body) {
    if (llvm::none_of(op.getOperands(), [&](Value operand) { return fromInputs.contains(operand); }))
      continue;
    fromInputs.insert(op.result_begin(), op.result_end());
    if (isToBeNarrow(&op))
      operators.insert(&op);
  }
}

bool NarrowOperators::isWide(Value value) { return getElementTypeOrSelf(value.getType()).isF32(); }

bool NarrowOperators::isToBeNarrow(Operation *op) const {
  auto precision = dyn_cast<PrecisionInterface>(op);
  if (!precision || precision.getPrecision() == Precision::Wide ||
      llvm::none_of(op->getOperands(), [](Value operand) { return isWide(operand); }))
    return false;
  return precision.getPrecision() == Precision::Gains || llvm::all_of(op->getOperands(), [&](Value operand) {
           return !isWide(operand) || !fromInputs.contains(operand) || operators.contains(operand.getDefiningOp());
         });
}

bool NarrowOperators::rounds(OpOperand &operand) const {
  return contains(operand.getOwner()) && isWide(operand.get()) &&
         !cast<PrecisionInterface>(operand.getOwner()).keepsWide(operand.getOperandNumber());
}

} // namespace cleave
