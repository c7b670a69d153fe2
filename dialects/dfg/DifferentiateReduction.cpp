// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of reductions and normalizations. What is narrower than f32 is widened before it is summed.

#include "dialects/dfg/Gradient.h"

using namespace mlir;

namespace cleave::dfg {

using G = const GradientBuilder &;

/// The gradient of an operator's only float operand, computed from the widened cotangent, in the operand's type.
static Gradients differentiateWide(Operation *op, OpBuilder &builder, const GradientRequest &request,
                                   llvm::function_ref<Value(G g, Value cotangent)> back) {
  Value cotangent = cotangentOf(op, request);
  if (!cotangent || !request.needed[0])
    return noGradients(op);
  GradientBuilder g(builder, op);
  return SmallVector<Value>{g.cast(back(g, g.widen(cotangent)), elementOf(op->getOperand(0)))};
}

//===-- reduce ------------------------------------------------------------------------------------------------===//

/// The product of all factors along `dims` but each one itself.
static Value productOfOthers(G g, Value x, ArrayRef<int64_t> dims) {
  Value product = g.reduce(g.nonZero(x), ReduceKind::Product, dims, /*keepDims=*/true);
  Value zeros = g.sum(g.cast(g.isZero(x), elementOf(x)), dims, /*keepDims=*/true);
  return g.otherFactors(x, product, zeros);
}

Gradients ReduceOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateWide(*this, builder, request, [&](G g, Value dy) -> Value {
    ArrayRef<int64_t> shape = shapeOf(getInput());
    SmallVector<int64_t> kept(shape);
    for (int64_t dim : getDims())
      kept[dim] = 1;
    dy = g.reshape(dy, kept);
    Value x = g.widen(getInput());
    switch (getKind()) {
    case ReduceKind::Sum:
      return g.broadcast(dy, shape);
    case ReduceKind::Product:
      return g.mul(dy, productOfOthers(g, x, getDims()));
    case ReduceKind::Max:
    case ReduceKind::Min:
      break;
    }
    // Those that are equal to the result share the cotangent.
    Value chosen = g.compare(x, Comparison::Equal, g.widen(g.reshape(getResult(), kept)));
    Value count = g.sum(g.cast(chosen, elementOf(x)), getDims(), /*keepDims=*/true);
    return g.where(chosen, g.div(dy, count));
  });
}

Gradients ArgReduceOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }

//===-- softmax, log_softmax, layer_norm ----------------------------------------------------------------------===//

Gradients SoftmaxOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateWide(*this, builder, request, [&](G g, Value dy) {
    auto dim = static_cast<int64_t>(getDim());
    Value y = g.widen(getResult());
    return g.mul(y, g.sub(dy, g.sum(g.mul(dy, y), dim, /*keepDims=*/true)));
  });
}

Gradients LogSoftmaxOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateWide(*this, builder, request, [&](G g, Value dy) {
    auto dim = static_cast<int64_t>(getDim());
    Value softmax = g.make<ExpOp>(g.widen(getResult()));
    return g.sub(dy, g.mul(softmax, g.sum(dy, dim, /*keepDims=*/true)));
  });
}

/// 1 / sqrt(variance + epsilon).
static Value inverseDeviation(G g, Value variance, double epsilon) {
  return g.div(1, g.make<SqrtOp>(g.add(variance, epsilon)));
}

/// Source: Ba, Kiros, Hinton, Layer normalization, 2016.
Gradients LayerNormOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateWide(*this, builder, request, [&](G g, Value dy) {
    Value x = g.widen(getInput()), y = g.widen(getResult());
    Value variance = g.mean(g.square(g.sub(x, g.mean(x, getDims()))), getDims());
    Value scale = inverseDeviation(g, variance, getEpsilon().convertToDouble());
    Value along = g.mul(y, g.mean(g.mul(dy, y), getDims()));
    return g.mul(g.sub(g.sub(dy, g.mean(dy, getDims())), along), scale);
  });
}

//===-- batch_norm --------------------------------------------------------------------------------------------===//

/// One value a channel as it is broadcast to a tensor of `rank`.
static Value alongChannels(G g, Value value, size_t rank) {
  SmallVector<int64_t> shape(rank - 1, 1);
  shape[0] = shapeOf(value)[0];
  return g.reshape(value, shape);
}

Gradients BatchNormOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(5);
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent)
    return gradients;
  GradientBuilder g(builder, *this);
  size_t rank = shapeOf(getInput()).size();
  SmallVector<int64_t> others = {0};
  for (size_t dim = 2; dim < rank; ++dim)
    others.push_back(static_cast<int64_t>(dim));
  ArrayRef<bool> needed = request.needed;
  Value dy = g.widen(cotangent), scale = g.widen(getScale());
  Value inverse = inverseDeviation(g, g.widen(getVariance()), getEpsilon().convertToDouble());
  Value slope = needed[0] || needed[3] || needed[4] ? g.mul(scale, inverse) : Value();
  // The sums of the cotangent, and of the cotangent times the normalized input.
  Value sum = needed[2] || needed[3] ? g.sum(dy, others, /*keepDims=*/false) : Value();
  Value weighted;
  if (needed[1] || needed[4]) {
    Value distance = g.sub(g.widen(getInput()), alongChannels(g, g.widen(getMean()), rank));
    weighted = g.mul(g.sum(g.mul(dy, distance), others, /*keepDims=*/false), inverse);
  }
  if (needed[0])
    gradients[0] = g.mul(dy, alongChannels(g, slope, rank));
  if (needed[1])
    gradients[1] = weighted;
  if (needed[2])
    gradients[2] = sum;
  if (needed[3])
    gradients[3] = g.neg(g.mul(sum, slope));
  if (needed[4])
    gradients[4] = g.mul(g.mul(weighted, -0.5), g.mul(slope, inverse));
  for (auto [gradient, operand] : llvm::zip(gradients, getOperands()))
    if (gradient)
      gradient = g.cast(gradient, elementOf(operand));
  return gradients;
}

//===-- lrn ---------------------------------------------------------------------------------------------------===//

/// The mean over the channels from `c - before` to `c + after`, those outside counting as zero.
static Value meanOfChannels(G g, Value x, int64_t before, int64_t after) {
  SmallVector<int64_t> shape(shapeOf(x)), image = {shape[0], 1, shape[1], 1};
  for (int64_t size : ArrayRef<int64_t>(shape).drop_front(2))
    image[3] *= size;
  int64_t size = before + after + 1, ones[] = {1, 1};
  Value pooled = g.make<PoolOp>(g.reshape(x, image), PoolKind::Average, ArrayRef<int64_t>{size, 1}, ones,
                                ArrayRef<int64_t>{before, 0, after, 0}, ones, /*count_include_pad=*/true);
  return g.reshape(pooled, shape);
}

/// With b = k + alpha m, m the mean of squares around a channel, and the result x b^-beta: b^-beta for the element
/// itself, and for its neighbours -2 alpha beta / size x times the cotangents' sum, each times x b^(-beta - 1).
Gradients LrnOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateWide(*this, builder, request, [&](G g, Value dy) {
    double alpha = getAlpha().convertToDouble(), beta = getBeta().convertToDouble();
    auto size = static_cast<int64_t>(getSize());
    int64_t before = (size - 1) / 2, after = size / 2;
    Value x = g.widen(getInput());
    Value mean = meanOfChannels(g, g.square(x), before, after);
    Value base = g.add(g.mul(mean, alpha), getK().convertToDouble());
    Value own = g.mul(dy, g.make<PowOp>(base, g.scalar(-beta, base)));
    Value around = meanOfChannels(g, g.div(g.mul(own, x), base), after, before);
    return g.sub(own, g.mul(g.mul(x, around), 2 * alpha * beta));
  });
}

} // namespace cleave::dfg
