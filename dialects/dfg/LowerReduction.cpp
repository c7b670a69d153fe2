// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions. f16 and bf16 are joined in f32.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;

namespace cleave::dfg {

static Value neutral(const ElementBuilder &e, ReduceKind kind, Type type) {
  switch (kind) {
  case ReduceKind::Sum:
    return e.constant(type, 0);
  case ReduceKind::Product:
    return type.isInteger(1) ? e.highest(type) : e.constant(type, 1);
  case ReduceKind::Max:
    return e.lowest(type);
  case ReduceKind::Min:
    return e.highest(type);
  }
  llvm_unreachable("all kinds are handled");
}

static Value join(const ElementBuilder &e, ReduceKind kind, Value a, Value b) {
  switch (kind) {
  case ReduceKind::Sum:
    return e.add(a, b);
  case ReduceKind::Product:
    return a.getType().isInteger(1) ? e.min(a, b) : e.mul(a, b);
  case ReduceKind::Max:
    return e.max(a, b);
  case ReduceKind::Min:
    return e.min(a, b);
  }
  llvm_unreachable("all kinds are handled");
}

static SmallVector<int64_t> shapeWithout(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept;
  for (auto [i, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(dims, static_cast<int64_t>(i)))
      kept.push_back(size);
  return kept;
}

FailureOr<SmallVector<Value>> ReduceOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  RankedTensorType input = tensorType(operands[0]), result = tensorType(getResult());
  // A sum of truth values has no meaning.
  if (getKind() == ReduceKind::Sum && input.getElementType().isInteger(1))
    return failure();
  LinalgBuilder lower(builder, getLoc());
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  Type wide = computeType(input.getElementType());
  Value start = neutral(ElementBuilder(builder, getLoc()), getKind(), wide);
  Value target = lower.filled(shapeWithout(input.getShape(), getDims()), start);
  SmallVector<AffineMap> maps = {lower.identity(input.getRank()), lower.without(input.getRank(), getDims())};
  Value joined =
      lower.reduceInto(target, operands[0], maps, getDims(), [&](const ElementBuilder &e, ValueRange elements) {
        return join(e, getKind(), elements[1], e.widen(elements[0]));
      });
  return SmallVector<Value>{lower.reshaped(lower.converted(joined, result.getElementType()), result.getShape())};
}

/// Carries the best element so far and its position. A NaN is never better.
FailureOr<SmallVector<Value>> ArgReduceOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  ElementBuilder scalars(builder, getLoc());
  RankedTensorType input = tensorType(operands[0]), result = tensorType(getResult());
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), result.getElementType())};
  bool isMax = getKind() == ArgKind::Max;
  int64_t dim = getDim();
  Type wide = computeType(input.getElementType());
  SmallVector<int64_t> shape = shapeWithout(input.getShape(), dim);
  Value best = lower.filled(shape, isMax ? scalars.lowest(wide) : scalars.highest(wide));
  Value position = lower.filled(shape, scalars.integer(result.getElementType(), 0));
  AffineMap reduced = lower.without(input.getRank(), dim);
  SmallVector<Value> found = lower.reduce(
      {best, position}, operands[0], {lower.identity(input.getRank()), reduced, reduced}, dim,
      [&](const ElementBuilder &e, ValueRange elements) {
        Value value = e.widen(elements[0]);
        Value low = isMax ? elements[1] : value, high = isMax ? value : elements[1];
        Value better = getLast() ? e.lessOrEqual(low, high) : e.less(low, high);
        Value index = linalg::IndexOp::create(e.getBuilder(), e.getLocation(), dim);
        index = arith::IndexCastOp::create(e.getBuilder(), e.getLocation(), result.getElementType(), index);
        return SmallVector<Value>{e.select(better, value, elements[1]), e.select(better, index, elements[2])};
      });
  return SmallVector<Value>{lower.reshaped(found[1], result.getShape())};
}

} // namespace cleave::dfg
