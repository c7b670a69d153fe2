// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of operators that move elements: the cotangents go back the way that the elements came.

#include "dialects/dfg/Gradient.h"

using namespace mlir;

namespace cleave::dfg {

/// The gradient of an operator's first operand, where it is needed.
static Gradients differentiateInput(Operation *op, OpBuilder &builder, const GradientRequest &request,
                                    llvm::function_ref<Value(const GradientBuilder &g, Value cotangent)> back) {
  SmallVector<Value> gradients(op->getNumOperands());
  if (Value cotangent = cotangentOf(op, request); cotangent && request.needed[0])
    gradients[0] = back(GradientBuilder(builder, op), cotangent);
  return gradients;
}

using G = const GradientBuilder &;

Gradients ReshapeOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateInput(*this, builder, request, [&](G g, Value dy) { return g.reshape(dy, shapeOf(getInput())); });
}

Gradients TransposeOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    inverse[from] = static_cast<int64_t>(to);
  return differentiateInput(*this, builder, request, [&](G g, Value dy) { return g.transpose(dy, inverse); });
}

Gradients BroadcastOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateInput(*this, builder, request, [&](G g, Value dy) { return g.sumTo(dy, shapeOf(getInput())); });
}

Gradients ReverseOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateInput(*this, builder, request, [&](G g, Value dy) { return g.make<ReverseOp>(dy, getDims()); });
}

/// Elements `[start, limit)` of each dimension.
static Value range(G g, Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> limits) {
  return g.make<SliceOp>(value, starts, limits, SmallVector<int64_t>(starts.size(), 1));
}

Gradients ConcatOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(getNumOperands());
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent)
    return gradients;
  GradientBuilder g(builder, *this);
  auto dim = static_cast<int64_t>(getDim());
  SmallVector<int64_t> starts(shapeOf(cotangent).size(), 0), limits(shapeOf(cotangent));
  for (auto [index, input] : llvm::enumerate(getInputs())) {
    limits[dim] = starts[dim] + shapeOf(input)[dim];
    if (request.needed[index])
      gradients[index] = range(g, cotangent, starts, limits);
    starts[dim] = limits[dim];
  }
  return gradients;
}

/// Puts `stride - 1` zeros behind every element of a dimension.
static Value spread(G g, Value value, int64_t dim, int64_t stride) {
  SmallVector<int64_t> shape(shapeOf(value)), none(shape.size() + 1, 0), high(none);
  SmallVector<int64_t> split(shape);
  split.insert(split.begin() + dim + 1, 1);
  high[dim + 1] = stride - 1;
  Value padded = g.make<PadOp>(g.reshape(value, split), g.scalar(0, value), none, high);
  shape[dim] *= stride;
  return g.reshape(padded, shape);
}

Gradients SliceOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateInput(*this, builder, request, [&](G g, Value dy) {
    ArrayRef<int64_t> shape = shapeOf(getInput());
    SmallVector<int64_t> zeros(shape.size(), 0), inside(shape.size()), high(shape.size());
    for (auto [i, stride] : llvm::enumerate(getStrides()))
      if (stride > 1)
        dy = spread(g, dy, static_cast<int64_t>(i), stride);
    // Zeros behind the last element may lie beyond the input's end.
    for (size_t i = 0; i < shape.size(); ++i) {
      inside[i] = std::min(shapeOf(dy)[i], shape[i] - getStarts()[i]);
      high[i] = shape[i] - getStarts()[i] - inside[i];
    }
    if (ArrayRef<int64_t>(inside) != shapeOf(dy))
      dy = range(g, dy, zeros, inside);
    return shapeOf(dy) == shape ? dy : g.make<PadOp>(dy, g.scalar(0, dy), getStarts(), high);
  });
}

/// All that is not the input's is the value's.
Gradients PadOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(2);
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent)
    return gradients;
  GradientBuilder g(builder, *this);
  SmallVector<int64_t> limits(getLow());
  for (auto [limit, size] : llvm::zip(limits, shapeOf(getInput())))
    limit += size;
  Value inside = range(g, cotangent, getLow(), limits);
  if (request.needed[0])
    gradients[0] = inside;
  if (request.needed[1])
    gradients[1] = g.sub(g.sumTo(cotangent, {}), g.sumTo(inside, {}));
  return gradients;
}

Gradients GatherOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateInput(*this, builder, request, [&](G g, Value dy) {
    return g.make<GatherGradientOp>(getInput().getType(), dy, getIndices(), getDim());
  });
}

Gradients GatherGradientOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateInput(*this, builder, request,
                            [&](G g, Value dy) { return g.make<GatherOp>(dy, getIndices(), getDim()); });
}

Gradients MaskOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateInput(*this, builder, request, [&](G g, Value dy) {
    return g.make<MaskOp>(dy, getExtents(), getDims(), getInner(), getSizes(), APFloat(0.0));
  });
}

Gradients BarrierOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateInput(*this, builder, request, [](G, Value dy) { return dy; });
}

Gradients IotaOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }

} // namespace cleave::dfg
