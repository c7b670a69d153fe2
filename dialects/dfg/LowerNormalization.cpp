// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax and the normalizations, as reductions and what is done with them. f16 and bf16 are computed in f32.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerGenerics.h"

using namespace mlir;

namespace cleave::dfg {

namespace {
/// An operator on one tensor that is normalized over some of its dimensions.
class Normalization {
public:
  Normalization(OpBuilder &builder, Location location, Value input, ArrayRef<int64_t> dims)
      : lower(builder, location), scalars(builder, location), input(input), type(tensorType(input)), dims(dims),
        wide(computeType(type.getElementType())), all(lower.identity(type.getRank())),
        kept(lower.without(type.getRank(), dims)) {
    for (auto [i, size] : llvm::enumerate(type.getShape()))
      if (!llvm::is_contained(dims, static_cast<int64_t>(i)))
        keptShape.push_back(size);
      else
        count *= size;
  }

  /// Joins all elements along the dimensions, from `start`; `body` sees the input's element, those of `others` (one a
  /// kept position), and the value so far.
  Value reduce(Value start, ValueRange others, LinalgBuilder::ElementBody body) const {
    SmallVector<Value> inputs = {input};
    SmallVector<AffineMap> maps = {all};
    inputs.append(others.begin(), others.end());
    maps.append(others.size() + 1, kept);
    return lower.reduceInto(lower.filled(keptShape, start), inputs, maps, dims,
                            [&](const ElementBuilder &e, ValueRange elements) {
                              SmallVector<Value> wider;
                              for (Value element : elements)
                                wider.push_back(e.widen(element));
                              return body(e, wider);
                            });
  }

  /// The largest element along the dimensions.
  Value max() const {
    return reduce(scalars.lowest(wide), {}, [](const ElementBuilder &e, ValueRange x) { return e.max(x[1], x[0]); });
  }

  /// A tensor of the input's shape; `body` sees as in `reduce`, without a value so far.
  Value map(Type element, ValueRange others, LinalgBuilder::ElementBody body) const {
    SmallVector<Value> inputs = {input};
    SmallVector<AffineMap> maps = {all};
    inputs.append(others.begin(), others.end());
    maps.append(others.size(), kept);
    return lower.map(type.getShape(), element, inputs, maps, [&](const ElementBuilder &e, ValueRange elements) {
      SmallVector<Value> wider;
      for (Value value : elements.drop_back())
        wider.push_back(e.widen(value));
      return e.convert(body(e, wider), element);
    });
  }

  /// One value a kept position, computed from those of `value`.
  Value mapKept(Value value, LinalgBuilder::ElementBody body) const {
    return lower.map(keptShape, wide, value, lower.identity(keptShape.size()), body);
  }

  LinalgBuilder lower;
  ElementBuilder scalars;
  Value input;
  RankedTensorType type;
  SmallVector<int64_t> dims, keptShape;
  Type wide;
  AffineMap all, kept;
  int64_t count = 1;
};
} // namespace

FailureOr<SmallVector<Value>> SoftmaxOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  int64_t dim = getDim();
  Normalization n(builder, getLoc(), operands[0], dim);
  if (n.type.getNumElements() == 0)
    return SmallVector<Value>{n.lower.empty(n.type.getShape(), n.type.getElementType())};
  Value max = n.max();
  Value powers = n.map(n.wide, max, [](const ElementBuilder &e, ValueRange x) { return e.exp(e.sub(x[0], x[1])); });
  Normalization ofPowers(builder, getLoc(), powers, dim);
  Value sum = ofPowers.reduce(n.scalars.constant(n.wide, 0), {},
                              [](const ElementBuilder &e, ValueRange x) { return e.add(x[1], x[0]); });
  if (n.type.getElementType() == n.wide)
    return SmallVector<Value>{
        n.lower.update(powers, sum, n.kept, [](const ElementBuilder &e, ValueRange x) { return e.div(x[1], x[0]); })};
  return SmallVector<Value>{ofPowers.map(n.type.getElementType(), sum,
                                         [](const ElementBuilder &e, ValueRange x) { return e.div(x[0], x[1]); })};
}

FailureOr<SmallVector<Value>> LogSoftmaxOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  int64_t dim = getDim();
  Normalization n(builder, getLoc(), operands[0], dim);
  if (n.type.getNumElements() == 0)
    return SmallVector<Value>{n.lower.empty(n.type.getShape(), n.type.getElementType())};
  Value max = n.max();
  Value sum = n.reduce(n.scalars.constant(n.wide, 0), max,
                       [](const ElementBuilder &e, ValueRange x) { return e.add(x[2], e.exp(e.sub(x[0], x[1]))); });
  Value logSum = n.mapKept(sum, [](const ElementBuilder &e, ValueRange x) { return e.log(x[0]); });
  return SmallVector<Value>{n.map(n.type.getElementType(), {max, logSum}, [](const ElementBuilder &e, ValueRange x) {
    return e.sub(e.sub(x[0], x[1]), x[2]);
  })};
}

FailureOr<SmallVector<Value>> LayerNormOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  Normalization n(builder, getLoc(), operands[0], getDims());
  if (n.type.getNumElements() == 0)
    return SmallVector<Value>{n.lower.empty(n.type.getShape(), n.type.getElementType())};
  Value zero = n.scalars.constant(n.wide, 0);
  double count = static_cast<double>(n.count), epsilon = getEpsilon().convertToDouble();
  Value sum = n.reduce(zero, {}, [](const ElementBuilder &e, ValueRange x) { return e.add(x[1], x[0]); });
  Value mean =
      n.mapKept(sum, [&](const ElementBuilder &e, ValueRange x) { return e.div(x[0], e.constant(n.wide, count)); });
  Value squares = n.reduce(zero, mean, [](const ElementBuilder &e, ValueRange x) {
    Value distance = e.sub(x[0], x[1]);
    return e.add(x[2], e.mul(distance, distance));
  });
  Value scale = n.mapKept(squares, [&](const ElementBuilder &e, ValueRange x) {
    Value variance = e.div(x[0], e.constant(n.wide, count));
    return e.div(e.constant(n.wide, 1), e.sqrt(e.add(variance, e.constant(n.wide, epsilon))));
  });
  return SmallVector<Value>{n.map(n.type.getElementType(), {mean, scale}, [](const ElementBuilder &e, ValueRange x) {
    return e.mul(e.sub(x[0], x[1]), x[2]);
  })};
}

FailureOr<SmallVector<Value>> BatchNormOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  RankedTensorType type = tensorType(operands[0]);
  if (type.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(type.getShape(), type.getElementType())};
  AffineMap channel = lower.mapOf(type.getRank(), lower.dim(1));
  SmallVector<AffineMap> maps(5, channel);
  maps[0] = lower.identity(type.getRank());
  double epsilon = getEpsilon().convertToDouble();
  return SmallVector<Value>{lower.map(type.getShape(), type.getElementType(), operands, maps,
                                      [&](const ElementBuilder &e, ValueRange elements) {
                                        SmallVector<Value> x;
                                        for (Value element : elements.drop_back())
                                          x.push_back(e.widen(element));
                                        Value deviation = e.sqrt(e.add(x[4], e.constant(x[4].getType(), epsilon)));
                                        Value normalized = e.div(e.sub(x[0], x[3]), deviation);
                                        return e.convert(e.add(e.mul(x[1], normalized), x[2]), type.getElementType());
                                      })};
}

/// A base, positive in practice, to the power of `exponent`; the common ones by square roots.
static Value powerOf(const ElementBuilder &e, Value base, double exponent) {
  if (exponent == 1.0)
    return base;
  if (exponent == 0.5)
    return e.sqrt(base);
  if (exponent == 0.75) {
    Value root = e.sqrt(base);
    return e.mul(root, e.sqrt(root));
  }
  return e.pow(base, e.constant(base.getType(), exponent));
}

FailureOr<SmallVector<Value>> LrnOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, getLoc());
  ElementBuilder scalars(builder, getLoc());
  RankedTensorType type = tensorType(operands[0]);
  if (type.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(type.getShape(), type.getElementType())};
  int64_t rank = type.getRank(), size = getSize();
  Type wide = computeType(type.getElementType());
  Value squares = lower.map(type.getShape(), wide, operands[0], lower.identity(rank),
                            [](const ElementBuilder &e, ValueRange elements) {
                              Value x = e.widen(elements[0]);
                              return e.mul(x, x);
                            });
  SmallVector<int64_t> low(rank, 0), high(rank, 0);
  low[1] = (size - 1) / 2;
  high[1] = size / 2;
  Value padded = lower.padded(squares, low, high, scalars.constant(wide, 0));

  // Loops: those of the input, then the neighbours, of which a tensor without elements tells the number.
  SmallVector<AffineExpr> neighbour;
  for (int64_t i = 0; i < rank; ++i)
    neighbour.push_back(i == 1 ? lower.dim(1) + lower.dim(rank) : lower.dim(i));
  SmallVector<AffineMap> maps = {lower.mapOf(rank + 1, neighbour), lower.mapOf(rank + 1, lower.dim(rank)),
                                 lower.without(rank + 1, rank)};
  Value sum = lower.reduceInto(
      lower.filled(type.getShape(), scalars.constant(wide, 0)), {padded, lower.empty(size, builder.getI1Type())}, maps,
      rank, [](const ElementBuilder &e, ValueRange elements) { return e.add(elements[2], elements[0]); });
  double k = getK().convertToDouble(), beta = getBeta().convertToDouble();
  double alpha = getAlpha().convertToDouble() / static_cast<double>(size);
  return SmallVector<Value>{
      lower.map(type.getShape(), type.getElementType(), {operands[0], sum},
                {lower.identity(rank), lower.identity(rank)}, [&](const ElementBuilder &e, ValueRange elements) {
                  Value base = e.add(e.constant(wide, k), e.mul(e.constant(wide, alpha), elements[1]));
                  return e.convert(e.div(e.widen(elements[0]), powerOf(e, base, beta)), type.getElementType());
                })};
}

} // namespace cleave::dfg
