// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions of the vocabulary of gradients.

#include "dialects/dfg/Gradient.h"
#include "dialects/dfg/LowerElements.h"

using namespace mlir;

namespace cleave::dfg {

ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

Gradients noGradients(Operation *op) { return SmallVector<Value>(op->getNumOperands()); }

Value cotangentOf(Operation *op, const GradientRequest &request) {
  return isa<FloatType>(elementOf(op->getResult(0))) ? request.cotangents[0] : Value();
}

static Value splat(const GradientBuilder &g, RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute attribute = isa<FloatType>(element) ? Attribute(g.getBuilder().getFloatAttr(element, value))
                                                : g.getBuilder().getIntegerAttr(element, static_cast<int64_t>(value));
  return g.make<ConstantOp>(cast<ElementsAttr>(DenseElementsAttr::get(type, attribute)));
}

Value GradientBuilder::scalar(double value, Value like) const {
  return splat(*this, RankedTensorType::get({}, elementOf(like)), value);
}

Value GradientBuilder::zeros(Type type) const { return splat(*this, llvm::cast<RankedTensorType>(type), 0); }

Value GradientBuilder::cast(Value value, Type element) const {
  return elementOf(value) == element ? value : make<CastOp>(value, element);
}

Value GradientBuilder::widen(Value value) const { return cast(value, computeType(elementOf(value))); }

Value GradientBuilder::reshape(Value value, ArrayRef<int64_t> shape) const {
  return shapeOf(value) == shape ? value : make<ReshapeOp>(RankedTensorType::get(shape, elementOf(value)), value);
}

Value GradientBuilder::broadcast(Value value, ArrayRef<int64_t> shape) const {
  return shapeOf(value) == shape ? value : make<BroadcastOp>(RankedTensorType::get(shape, elementOf(value)), value);
}

Value GradientBuilder::transpose(Value value, ArrayRef<int64_t> permutation) const {
  return llvm::is_sorted(permutation) ? value : make<TransposeOp>(value, permutation);
}

Value GradientBuilder::reduce(Value value, ReduceKind kind, ArrayRef<int64_t> dims, bool keepDims) const {
  return dims.empty() ? value : make<ReduceOp>(value, kind, dims, keepDims);
}

Value GradientBuilder::mean(Value value, ArrayRef<int64_t> dims) const {
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(shapeOf(value)[dim]);
  return mul(sum(value, dims, /*keepDims=*/true), 1 / count);
}

Value GradientBuilder::sumTo(Value value, ArrayRef<int64_t> shape) const {
  ArrayRef<int64_t> from = shapeOf(value);
  size_t missing = from.size() - shape.size();
  SmallVector<int64_t> dims;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < missing || (shape[i - missing] == 1 && from[i] != 1))
      dims.push_back(static_cast<int64_t>(i));
  return reshape(sum(value, dims, /*keepDims=*/false), shape);
}

Value GradientBuilder::otherFactors(Value factor, Value product, Value zeros) const {
  Value noZero = where(isZero(zeros), product);
  Value oneZero = where(compare(zeros, Comparison::Equal, 1), product);
  return select(isZero(factor), oneZero, div(noZero, nonZero(factor)));
}

} // namespace cleave::dfg
