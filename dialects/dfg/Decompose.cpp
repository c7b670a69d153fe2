// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Normalizations as the simpler operators that they consist of, computed in f32 where elements are narrower.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerElements.h"

using namespace mlir;

namespace cleave::dfg {
namespace {

/// Builds operators at the builder's insertion point, all with the location of the operator that is taken apart.
class Parts {
public:
  Parts(OpBuilder &builder, Operation *op, ArrayRef<int64_t> dims)
      : builder(builder), location(op->getLoc()), dims(dims) {}

  Type elementOf(Value value) const { return cast<RankedTensorType>(value.getType()).getElementType(); }
  Value converted(Value value, Type element) const {
    return elementOf(value) == element ? value : CastOp::create(builder, location, value, element).getResult();
  }
  Value wide(Value value) const { return converted(value, computeType(elementOf(value))); }
  Value scalar(Type element, double value) const {
    return ConstantOp::create(
        builder, location,
        DenseElementsAttr::get(RankedTensorType::get({}, element), builder.getFloatAttr(element, value)));
  }
  Value reduce(Value value, ReduceKind kind) const {
    return ReduceOp::create(builder, location, value, kind, dims, /*keep_dims=*/true);
  }
  /// The mean along the dimensions, of which there are `count` elements.
  Value mean(Value value, int64_t count) const {
    return binary<DivOp>(reduce(value, ReduceKind::Sum), scalar(elementOf(value), static_cast<double>(count)));
  }
  template <typename Op> Value unary(Value value) const { return Op::create(builder, location, value); }
  template <typename Op> Value binary(Value lhs, Value rhs) const { return Op::create(builder, location, lhs, rhs); }

private:
  OpBuilder &builder;
  Location location;
  ArrayRef<int64_t> dims;
};

} // namespace

SmallVector<Value> SoftmaxOp::decompose(OpBuilder &builder, ValueRange operands) {
  auto dim = static_cast<int64_t>(getDim());
  Parts parts(builder, *this, dim);
  Value x = parts.wide(operands[0]);
  Value powers = parts.unary<ExpOp>(parts.binary<SubOp>(x, parts.reduce(x, ReduceKind::Max)));
  Value result = parts.binary<DivOp>(powers, parts.reduce(powers, ReduceKind::Sum));
  return {parts.converted(result, parts.elementOf(operands[0]))};
}

SmallVector<Value> LogSoftmaxOp::decompose(OpBuilder &builder, ValueRange operands) {
  auto dim = static_cast<int64_t>(getDim());
  Parts parts(builder, *this, dim);
  Value x = parts.wide(operands[0]);
  Value shifted = parts.binary<SubOp>(x, parts.reduce(x, ReduceKind::Max));
  Value sum = parts.reduce(parts.unary<ExpOp>(shifted), ReduceKind::Sum);
  Value result = parts.binary<SubOp>(shifted, parts.unary<LogOp>(sum));
  return {parts.converted(result, parts.elementOf(operands[0]))};
}

SmallVector<Value> LayerNormOp::decompose(OpBuilder &builder, ValueRange operands) {
  Parts parts(builder, *this, getDims());
  Value x = parts.wide(operands[0]);
  int64_t count = 1;
  for (int64_t dim : getDims())
    count *= cast<RankedTensorType>(x.getType()).getDimSize(dim);
  Value centred = parts.binary<SubOp>(x, parts.mean(x, count));
  Value variance = parts.mean(parts.binary<MulOp>(centred, centred), count);
  Value epsilon = parts.scalar(parts.elementOf(x), getEpsilon().convertToDouble());
  Value deviation = parts.unary<SqrtOp>(parts.binary<AddOp>(variance, epsilon));
  return {parts.converted(parts.binary<DivOp>(centred, deviation), parts.elementOf(operands[0]))};
}

} // namespace cleave::dfg
