// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folding: small results of known operands, and movements that move nothing.

#include "dialects/dfg/Dfg.h"

using namespace mlir;

namespace cleave::dfg {

/// Constants in the IR stay small: larger results are left to be computed.
static constexpr int64_t largestFoldedResult = 1024;
static constexpr int64_t largestFoldedOperand = 65536;

OpFoldResult foldByEvaluation(Operation *op, ArrayRef<Attribute> operands) {
  if (isa<CastOp>(op) && op->getOperand(0).getType() == op->getResult(0).getType())
    return op->getOperand(0);
  auto evaluate = dyn_cast<EvaluateInterface>(op);
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!evaluate || !type || op->getNumResults() != 1 || type.getNumElements() > largestFoldedResult)
    return {};
  SmallVector<HostTensor> values;
  for (Attribute operand : operands) {
    auto elements = dyn_cast_or_null<DenseElementsAttr>(operand);
    if (!elements || elements.getNumElements() > largestFoldedOperand)
      return {};
    values.push_back(HostTensor::fromAttribute(elements));
  }
  auto results = evaluate.evaluate(values);
  if (failed(results))
    return {};
  return results->front().toAttribute();
}

/// Whether an operand may have another shape without the result's being another one.
static bool keepsShape(Operation *op, OpOperand &changed, Value to) {
  FailureOr<SmallVector<int64_t>> shape = SmallVector<int64_t>();
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = &operand == &changed ? to : operand.get();
    shape = broadcastShapes(*shape, cast<RankedTensorType>(value.getType()).getShape());
    if (failed(shape))
      return false;
  }
  return llvm::equal(*shape, cast<RankedTensorType>(op->getResult(0).getType()).getShape());
}

OpFoldResult foldElementwise(Operation *op, ArrayRef<Attribute> operands) {
  bool isChanged = false;
  for (OpOperand &operand : op->getOpOperands()) {
    auto repeated = operand.get().getDefiningOp<BroadcastOp>();
    if (!repeated || !keepsShape(op, operand, repeated.getInput()))
      continue;
    operand.set(repeated.getInput());
    isChanged = true;
  }
  return isChanged ? OpFoldResult(op->getResult(0)) : foldByEvaluation(op, operands);
}

/// The operator's only operand, if the result has its type and `movesNothing`; else the value by evaluation.
template <typename OpTy> static OpFoldResult foldMovement(OpTy op, ArrayRef<Attribute> operands, bool movesNothing) {
  if (movesNothing && op->getOperand(0).getType() == op->getResult(0).getType())
    return op->getOperand(0);
  return foldByEvaluation(op, operands);
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (auto before = getInput().getDefiningOp<ReshapeOp>()) {
    if (before.getInput().getType() == getResult().getType())
      return before.getInput();
    getInputMutable().assign(before.getInput());
    return getResult();
  }
  return foldMovement(*this, adaptor.getOperands(), true);
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (auto before = getInput().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> permutation;
    for (int64_t dim : getPermutation())
      permutation.push_back(before.getPermutation()[dim]);
    if (llvm::is_sorted(permutation))
      return before.getInput();
    setPermutation(permutation);
    getInputMutable().assign(before.getInput());
    return getResult();
  }
  return foldMovement(*this, adaptor.getOperands(), llvm::is_sorted(getPermutation()));
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) { return foldMovement(*this, adaptor.getOperands(), true); }

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) { return foldMovement(*this, adaptor.getOperands(), true); }

OpFoldResult ReverseOp::fold(FoldAdaptor adaptor) {
  auto shape = cast<RankedTensorType>(getInput().getType()).getShape();
  bool movesNothing = llvm::all_of(getDims(), [&](int64_t dim) { return shape[dim] <= 1; });
  return foldMovement(*this, adaptor.getOperands(), movesNothing);
}

OpFoldResult PadOp::fold(FoldAdaptor adaptor) { return foldMovement(*this, adaptor.getOperands(), true); }

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  return foldMovement(*this, adaptor.getOperands(), getInputs().size() == 1);
}

OpFoldResult GatherOp::fold(FoldAdaptor adaptor) { return foldByEvaluation(*this, adaptor.getOperands()); }

OpFoldResult IotaOp::fold(FoldAdaptor adaptor) { return foldByEvaluation(*this, adaptor.getOperands()); }

OpFoldResult ReduceOp::fold(FoldAdaptor adaptor) {
  return foldMovement(*this, adaptor.getOperands(), getDims().empty());
}

} // namespace cleave::dfg
