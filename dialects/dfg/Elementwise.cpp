// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types and split rules of elementwise operators, by NumPy's broadcasting.

#include "dialects/dfg/Dfg.h"

using namespace mlir;

namespace cleave::dfg {

FailureOr<SmallVector<int64_t>> broadcastShapes(ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  if (lhs.size() < rhs.size())
    std::swap(lhs, rhs);
  SmallVector<int64_t> shape(lhs);
  for (size_t i = 0; i < rhs.size(); ++i) {
    int64_t &size = shape[lhs.size() - rhs.size() + i];
    if (size == 1)
      size = rhs[i];
    else if (rhs[i] != 1 && rhs[i] != size)
      return failure();
  }
  return shape;
}

LogicalResult inferElementwise(std::optional<Location> location, StringRef name, ValueRange operands, Type elementType,
                               SmallVectorImpl<Type> &types) {
  SmallVector<int64_t> shape;
  Type last;
  for (Value operand : operands) {
    auto tensor = dyn_cast<RankedTensorType>(operand.getType());
    if (!tensor || !tensor.hasStaticShape())
      return emitOptionalError(location, "'", name, "' expects tensors of static shape, got ", operand.getType());
    auto joined = broadcastShapes(shape, tensor.getShape());
    if (failed(joined))
      return emitOptionalError(location, "'", name, "' expects shapes that broadcast, got ", operands.getTypes());
    shape = std::move(*joined);
    if (last && !last.isInteger(1) && last != tensor.getElementType())
      return emitOptionalError(location, "'", name, "' expects one element type, got ", operands.getTypes());
    last = tensor.getElementType();
  }
  types.push_back(RankedTensorType::get(shape, elementType ? elementType : last));
  return success();
}

SmallVector<SmallVector<unsigned, 2>, 2> linearCast(Operation *op) {
  auto from = dyn_cast<FloatType>(cast<RankedTensorType>(op->getOperand(0).getType()).getElementType());
  auto to = dyn_cast<FloatType>(cast<RankedTensorType>(op->getResult(0).getType()).getElementType());
  if (!from || !to || from.getWidth() >= to.getWidth())
    return {};
  return {{0}};
}

SplitRule elementwiseSplitRule(Operation *op, SmallVector<SmallVector<unsigned, 2>, 2> linear) {
  SplitRule rule;
  rule.linear = std::move(linear);
  auto shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  for (auto [index, size] : llvm::enumerate(shape))
    rule.addFactor("d" + std::to_string(index), size);
  auto factorsOf = [&](Type type) {
    auto operandShape = cast<RankedTensorType>(type).getShape();
    TensorFactors dims;
    for (size_t i = 0; i < operandShape.size(); ++i) {
      unsigned position = shape.size() - operandShape.size() + i;
      dims.push_back(operandShape[i] == shape[position] ? DimFactors{position} : DimFactors{});
    }
    return dims;
  };
  for (Type type : op->getOperandTypes())
    rule.operands.push_back(factorsOf(type));
  rule.results.push_back(factorsOf(op->getResult(0).getType()));
  return rule;
}

} // namespace cleave::dfg
