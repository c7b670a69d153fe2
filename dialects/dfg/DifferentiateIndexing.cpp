// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of operators that read and write positions, and of running sums.

#include "dialects/dfg/Gradient.h"

using namespace mlir;

namespace cleave::dfg {

using G = const GradientBuilder &;

/// Positions, those that count from the end included, as they are counted from the start.
static Value fromStart(G g, Value indices, int64_t size) {
  return g.select(g.compare(indices, Comparison::Less, 0), g.add(indices, static_cast<double>(size)), indices);
}

/// Positions moved to the nearest element of a dimension of `size`.
static Value nearest(G g, Value indices, int64_t size) {
  Value low = g.make<MaxOp>(fromStart(g, indices, size), g.scalar(0, indices));
  return g.make<MinOp>(low, g.scalar(static_cast<double>(size - 1), indices));
}

/// The index along `dim` at each position of a tensor of `shape`.
static Value iota(G g, ArrayRef<int64_t> shape, int64_t dim, Type element) {
  return g.make<IotaOp>(RankedTensorType::get(shape, element), dim);
}

Gradients GatherElementsOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent || !request.needed[0])
    return noGradients(*this);
  GradientBuilder g(builder, *this);
  auto dim = static_cast<int64_t>(getDim());
  ArrayRef<int64_t> shape = shapeOf(getInput());
  Value indices = nearest(g, getIndices(), shape[dim]);
  // One element a line is chosen by comparing; several are added up.
  if (shapeOf(indices)[dim] == 1) {
    Value here = g.compare(iota(g, shape, dim, elementOf(indices)), Comparison::Equal, indices);
    return SmallVector<Value>{g.where(here, cotangent), Value()};
  }
  auto sum = ReduceKindAttr::get(builder.getContext(), ReduceKind::Sum);
  return SmallVector<Value>{
      g.make<ScatterElementsOp>(g.zeros(getInput().getType()), indices, cotangent, builder.getI64IntegerAttr(dim), sum),
      Value()};
}

namespace {
/// A scatter in the making: what an update's element gets from a tensor of the result's shape, and where updates that
/// are dropped get nothing.
class Scatter {
public:
  Scatter(const GradientBuilder &g, ScatterElementsOp op)
      : g(g), input(op.getInput()), indices(op.getIndices()), updates(op.getUpdates()), result(op.getResult()),
        dim(static_cast<int64_t>(op.getDim())), size(shapeOf(input)[dim]) {}

  /// `elements` put onto a tensor as the operator puts its updates.
  Value put(Value elements, Value onto, std::optional<ReduceKind> kind) const {
    OpBuilder &builder = g.getBuilder();
    ReduceKindAttr reduction = kind ? ReduceKindAttr::get(builder.getContext(), *kind) : ReduceKindAttr();
    return g.make<ScatterElementsOp>(onto, indices, elements, builder.getI64IntegerAttr(dim), reduction);
  }

  /// What stands at each update's place; something where it is dropped.
  Value take(Value tensor) const { return g.make<GatherElementsOp>(tensor, indices, dim); }

  /// `updates`, zero where they are dropped.
  Value kept(Value updates) const {
    Value at = fromStart(g, indices, size);
    Value inside = g.make<AndOp>(g.compare(at, Comparison::GreaterOrEqual, 0),
                                 g.compare(at, Comparison::Less, static_cast<double>(size)));
    return g.where(inside, updates);
  }

  const GradientBuilder &g;
  Value input, indices, updates, result;
  int64_t dim, size;
};
} // namespace

/// Without a reduction: the last update of a place has the cotangent. Which it is tells a scatter of the updates' own
/// indices.
static SmallVector<Value> lastUpdates(const Scatter &scatter, Value cotangent, ArrayRef<bool> needed) {
  G g = scatter.g;
  ArrayRef<int64_t> shape = shapeOf(scatter.updates);
  SmallVector<Value> gradients(3);
  if (needed[0])
    gradients[0] = scatter.put(g.zeros(scatter.updates.getType()), cotangent, std::nullopt);
  if (!needed[2])
    return gradients;
  Type index = g.getBuilder().getI64Type();
  Value numbers = iota(g, shape, scatter.dim, index);
  Value nobody = g.broadcast(g.scalar(-1, numbers), shapeOf(scatter.input));
  Value last = scatter.take(scatter.put(numbers, nobody, std::nullopt));
  gradients[2] = g.where(g.compare(last, Comparison::Equal, numbers), scatter.take(cotangent));
  return gradients;
}

/// The largest or smallest of input and updates: those that are equal to the result share its cotangent.
static SmallVector<Value> chosenUpdates(const Scatter &scatter, Value cotangent, ArrayRef<bool> needed) {
  G g = scatter.g;
  Type element = elementOf(cotangent);
  Value own = g.cast(g.compare(scatter.input, Comparison::Equal, scatter.result), element);
  Value theirs = g.cast(g.compare(scatter.updates, Comparison::Equal, scatter.take(scatter.result)), element);
  Value share = g.div(cotangent, scatter.put(theirs, own, ReduceKind::Sum));
  SmallVector<Value> gradients(3);
  if (needed[0])
    gradients[0] = g.mul(own, share);
  if (needed[2])
    gradients[2] = scatter.kept(g.mul(theirs, scatter.take(share)));
  return gradients;
}

static SmallVector<Value> multipliedUpdates(const Scatter &scatter, Value cotangent, ArrayRef<bool> needed) {
  G g = scatter.g;
  Value input = scatter.input, updates = scatter.updates;
  Type element = elementOf(cotangent);
  Value product = scatter.put(g.nonZero(updates), g.nonZero(input), ReduceKind::Product);
  Value zeros = scatter.put(g.cast(g.isZero(updates), element), g.cast(g.isZero(input), element), ReduceKind::Sum);
  SmallVector<Value> gradients(3);
  if (needed[0])
    gradients[0] = g.mul(cotangent, g.otherFactors(input, product, zeros));
  if (needed[2]) {
    Value others = g.otherFactors(updates, scatter.take(product), scatter.take(zeros));
    gradients[2] = scatter.kept(g.mul(scatter.take(cotangent), others));
  }
  return gradients;
}

Gradients ScatterElementsOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent || cast<RankedTensorType>(getType()).getNumElements() == 0)
    return noGradients(*this);
  GradientBuilder g(builder, *this);
  Scatter scatter(g, *this);
  if (!getReduction())
    return lastUpdates(scatter, cotangent, request.needed);
  switch (*getReduction()) {
  case ReduceKind::Sum:
    return SmallVector<Value>{cotangent, Value(), request.needed[2] ? scatter.kept(scatter.take(cotangent)) : Value()};
  case ReduceKind::Product:
    return multipliedUpdates(scatter, cotangent, request.needed);
  case ReduceKind::Max:
  case ReduceKind::Min:
    return chosenUpdates(scatter, cotangent, request.needed);
  }
  llvm_unreachable("all kinds are handled");
}

/// An element is part of all sums from its own position on.
Gradients CumulativeSumOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent || !request.needed[0])
    return noGradients(*this);
  GradientBuilder g(builder, *this);
  auto dim = static_cast<int64_t>(getDim());
  Value sums = g.make<CumulativeSumOp>(g.make<ReverseOp>(cotangent, dim), dim, getExclusive());
  return SmallVector<Value>{g.make<ReverseOp>(sums, dim)};
}

Gradients ArgSortOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }

} // namespace cleave::dfg
