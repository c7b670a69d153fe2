// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that many threads share another way. The position of an extreme becomes two reductions, each of which many
// threads can join: the extreme, then the first or last position where it stands. The gradient of a pooling is computed
// for each position of the input by itself.

#include "passes/codegen/GpuOperators.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/GatherPoolGradient.h"
#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <limits>

using namespace mlir;

namespace cleave {

using dfg::ElementBuilder;

/// Whether one thread a result is too little: too few, or each goes through memory on a way of its own.
static bool isWorthDividing(dfg::ArgReduceOp op, RankedTensorType input) {
  constexpr int64_t enoughThreads = 64 * 1024;
  auto behind = input.getShape().drop_front(op.getDim() + 1);
  bool isLast = llvm::all_of(behind, [](int64_t size) { return size == 1; });
  return input.getDimSize(op.getDim()) > 1 && input.getDimSize(op.getDim()) <= std::numeric_limits<int32_t>::max() &&
         (isLast || input.getNumElements() / input.getDimSize(op.getDim()) < enoughThreads);
}

/// What any number is at least as good as.
static Value neutralOf(const ElementBuilder &e, dfg::ArgReduceOp op, Type type) {
  return op.getKind() == dfg::ArgKind::Max ? e.lowest(type) : e.highest(type);
}

/// The extreme of what is a number; where there is none, the neutral value.
static Value findExtreme(const dfg::LinalgBuilder &lower, dfg::ArgReduceOp op, Value input, Type wide) {
  auto type = cast<RankedTensorType>(input.getType());
  bool isMax = op.getKind() == dfg::ArgKind::Max;
  int64_t dim = op.getDim();
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + dim);
  SmallVector<AffineMap> maps = {lower.identity(type.getRank()), lower.without(type.getRank(), dim)};
  Value start = neutralOf(ElementBuilder(lower.getBuilder(), op.getLoc()), op, wide);
  return lower.reduceInto(lower.filled(shape, start), input, maps, dim,
                          [&](const ElementBuilder &e, ValueRange elements) {
                            Value value = e.widen(elements[0]);
                            if (isa<FloatType>(value.getType()))
                              value = e.select(e.equal(value, value), value, neutralOf(e, op, wide));
                            return isMax ? e.max(elements[1], value) : e.min(elements[1], value);
                          });
}

/// As the operator's own meaning: a NaN is never an extreme, and without any the position is 0. Its first position has
/// to be better than the neutral value, its last one as good.
static Value lowerArgReduce(OpBuilder &builder, dfg::ArgReduceOp op, Value input) {
  dfg::LinalgBuilder lower(builder, op.getLoc());
  ElementBuilder scalars(builder, op.getLoc());
  auto type = cast<RankedTensorType>(input.getType()), result = cast<RankedTensorType>(op.getType());
  bool isLast = op.getLast();
  int64_t dim = op.getDim();
  Type wide = dfg::computeType(type.getElementType()), i32 = builder.getI32Type();
  Value extreme = findExtreme(lower, op, input, wide);
  auto none = [&](const ElementBuilder &e) { return isLast ? e.integer(i32, 0) : e.highest(i32); };
  AffineMap reduced = lower.without(type.getRank(), dim);
  auto shape = cast<RankedTensorType>(extreme.getType()).getShape();
  Value position = lower.reduceInto(lower.filled(shape, none(scalars)), {input, extreme},
                                    {lower.identity(type.getRank()), reduced, reduced}, dim,
                                    [&](const ElementBuilder &e, ValueRange elements) {
                                      Value index = linalg::IndexOp::create(e.getBuilder(), e.getLocation(), dim);
                                      index = arith::IndexCastOp::create(e.getBuilder(), e.getLocation(), i32, index);
                                      index = e.select(e.equal(e.widen(elements[0]), elements[1]), index, none(e));
                                      return isLast ? e.max(elements[2], index) : e.min(elements[2], index);
                                    });
  AffineMap all = lower.identity(shape.size());
  position = lower.map(shape, result.getElementType(), {position, extreme}, {all, all},
                       [&](const ElementBuilder &e, ValueRange elements) {
                         Value found = e.convert(elements[0], result.getElementType());
                         if (isLast)
                           return found;
                         Value first = e.integer(result.getElementType(), 0);
                         return e.select(e.equal(elements[1], neutralOf(e, op, wide)), first, found);
                       });
  return lower.reshaped(position, result.getShape());
}

FailureOr<SmallVector<Value>> lowerGpuOperator(OpBuilder &builder, Operation *op, ValueRange operands) {
  if (auto fusion = dyn_cast<dfg::FusionOp>(op))
    return lowerBody(builder, fusion.getBody().front(), operands, lowerGpuOperator);
  if (auto arg = dyn_cast<dfg::ArgReduceOp>(op)) {
    auto input = cast<RankedTensorType>(operands[0].getType());
    if (input.getNumElements() > 0 && isWorthDividing(arg, input))
      return SmallVector<Value>{lowerArgReduce(builder, arg, operands[0])};
  }
  if (auto gradient = dyn_cast<dfg::PoolGradientOp>(op))
    if (Value result = dfg::gatherPoolGradient(builder, gradient, operands))
      return SmallVector<Value>{result};
  return lowerOperator(builder, op, operands);
}

} // namespace cleave
