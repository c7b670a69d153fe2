// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions and normalizations.

#include "test/property/split/OperatorTemplates.h"

using namespace mlir;

namespace cleave::test {
namespace {

double largest(Bounds bounds) { return std::max(std::fabs(bounds.low), std::fabs(bounds.high)); }

SmallVector<int64_t> someDims(GraphBuilder &g, Value x) {
  SmallVector<int64_t> dims;
  for (size_t i = 0; i < shapeOf(x).size(); ++i)
    if (g.dice.oneIn(2))
      dims.push_back(static_cast<int64_t>(i));
  return dims;
}

int64_t product(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= shape[dim];
  return count;
}

Value buildReduce(GraphBuilder &g, Value x) {
  using Kind = dfg::ReduceKind;
  SmallVector<int64_t> dims = someDims(g, x);
  Kind kind = elementOf(x).isInteger(1) ? g.dice.of<Kind>({Kind::Max, Kind::Min})
                                        : g.dice.of<Kind>({Kind::Sum, Kind::Product, Kind::Max, Kind::Min});
  // So that products neither vanish nor grow beyond all bounds.
  if (kind == Kind::Product && isa<FloatType>(elementOf(x)))
    x = g.within(x, {0.9, 1.1});
  Bounds bounds = g.boundsOf(x);
  auto count = static_cast<double>(product(shapeOf(x), dims));
  if (kind == Kind::Sum)
    bounds = {-count * largest(bounds), count * largest(bounds)};
  else if (kind == Kind::Product)
    bounds = {-std::pow(largest(bounds), count), std::pow(largest(bounds), count)};
  bool isExact = kind == Kind::Max || kind == Kind::Min;
  return g.add<dfg::ReduceOp>(isExact ? Rounding::Exact : Rounding::Inexact, bounds, x, kind, dims, g.dice.oneIn(2));
}

Value buildArgReduce(GraphBuilder &g, Value x) {
  size_t dim = g.dice.below(shapeOf(x).size());
  return g.add<dfg::ArgReduceOp>(Rounding::Exact, Bounds{0, static_cast<double>(shapeOf(x)[dim])}, x,
                                 g.dice.oneIn(2) ? dfg::ArgKind::Max : dfg::ArgKind::Min, dim, g.dice.oneIn(2),
                                 g.dice.oneIn(2));
}

Value buildSoftmax(GraphBuilder &g, Value x) {
  return g.add<dfg::SoftmaxOp>(Rounding::Inexact, Bounds{0, 1}, x, g.dice.below(shapeOf(x).size()));
}

Value buildLogSoftmax(GraphBuilder &g, Value x) {
  return g.add<dfg::LogSoftmaxOp>(Rounding::Inexact, Bounds{-20, 0}, x, g.dice.below(shapeOf(x).size()));
}

/// With an epsilon of a size that keeps tensors of one element, and of equal ones, from amplifying rounding.
Value buildLayerNorm(GraphBuilder &g, Value x) {
  return g.add<dfg::LayerNormOp>(Rounding::Inexact, Bounds{-8, 8}, x, g.array(someDims(g, x)),
                                 g.at().getF64FloatAttr(0.01));
}

Value buildBatchNorm(GraphBuilder &g, Value x) {
  int64_t channels = shapeOf(x)[1];
  Type element = elementOf(x);
  Value scale = g.any(element, channels, {-2, 2}), bias = g.any(element, channels, {-2, 2}),
        mean = g.any(element, channels, {-1, 1}), variance = g.any(element, channels, {0.5, 2});
  double magnitude = 4 * (largest(g.boundsOf(x)) + 1) + 2;
  return g.add<dfg::BatchNormOp>(Rounding::Inexact, Bounds{-magnitude, magnitude}, x, scale, bias, mean, variance,
                                 g.at().getF64FloatAttr(1e-5), FloatAttr());
}

Value buildLrn(GraphBuilder &g, Value x) {
  Builder &b = g.at();
  return g.add<dfg::LrnOp>(Rounding::Inexact, g.boundsOf(x), x, b.getI64IntegerAttr(g.dice.between(1, 5)),
                           b.getF64FloatAttr(0.5), b.getF64FloatAttr(0.75), b.getF64FloatAttr(1));
}

} // namespace

void addReductionTemplates(TemplateList &list) {
  list.push_back({"reduce", Elements::Any, 0, 4, {-3, 3}, false, buildReduce});
  list.push_back({"arg_reduce", Elements::Number, 1, 4, {-100, 100}, true, buildArgReduce});
  list.push_back({"softmax", Elements::Float, 1, 4, {-5, 5}, false, buildSoftmax});
  list.push_back({"log_softmax", Elements::Float, 1, 4, {-5, 5}, false, buildLogSoftmax});
  list.push_back({"layer_norm", Elements::Float, 1, 4, {-5, 5}, false, buildLayerNorm});
  list.push_back({"batch_norm", Elements::Float, 2, 4, {-5, 5}, false, buildBatchNorm});
  list.push_back({"lrn", Elements::Float, 2, 4, {-5, 5}, false, buildLrn});
}

} // namespace cleave::test
