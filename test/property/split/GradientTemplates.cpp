// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that compute gradients.

#include "test/property/split/OperatorTemplates.h"

using namespace mlir;

namespace cleave::test {
namespace {

constexpr Bounds small = {-2, 2};
Bounds around(double magnitude) { return {-magnitude, magnitude}; }

/// The value is the convolution's input.
Value buildConvFilterGradient(GraphBuilder &g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  Window window = randomWindow(g, shape.drop_front(2));
  int64_t groups = randomGroups(g, shape[1]), filters = groups * g.dice.between(1, groups > 3 ? 2 : 5);
  SmallVector<int64_t> filter = {filters, shape[1] / groups};
  filter.append(window.sizes);
  SmallVector<int64_t> result = window.resultShape({shape[0], filters}, shape.drop_front(2));
  Value cotangent = g.any(elementOf(x), result, small);
  double terms = static_cast<double>(shape[0]);
  for (int64_t size : ArrayRef<int64_t>(result).drop_front(2))
    terms *= static_cast<double>(size);
  return g.add<dfg::ConvFilterGradientOp>(Rounding::Inexact, around(4 * terms), g.type(elementOf(x), filter), x,
                                          cotangent, window.strides, window.pads, window.dilations, groups);
}

/// A window whose strides are its sizes, which divide the input's where they can.
Window tilingWindow(GraphBuilder &g, ArrayRef<int64_t> space) {
  Window window;
  for (int64_t size : space) {
    int64_t width = g.dice.between(1, std::min<int64_t>(size, 3));
    window.sizes.push_back(width);
    window.strides.push_back(width);
    window.dilations.push_back(1);
    window.elements *= width;
  }
  window.pads.assign(2 * space.size(), 0);
  return window;
}

/// The value is the pooling's input, which the gradient of an average does not read.
Value buildPoolGradient(GraphBuilder &g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x), space = shape.drop_front(2);
  Window window = g.dice.oneIn(2) ? tilingWindow(g, space) : randomWindow(g, space);
  bool isMax = g.dice.oneIn(2);
  Value cotangent = g.any(elementOf(x), window.resultShape(shape.take_front(2), space), small);
  return g.add<dfg::PoolGradientOp>(Rounding::Inexact, around(2.0 * static_cast<double>(window.elements)), x.getType(),
                                    cotangent, isMax ? x : Value(), isMax ? dfg::PoolKind::Max : dfg::PoolKind::Average,
                                    window.sizes, window.strides, window.pads, window.dilations,
                                    !isMax && g.dice.oneIn(2));
}

/// The value is the cotangent, of which up to two dimensions are those of the positions.
Value buildGatherGradient(GraphBuilder &g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  auto rank = static_cast<int64_t>(shape.size());
  int64_t dim = g.dice.between(0, rank), count = g.dice.between(0, std::min<int64_t>(2, rank - dim)), size = g.size();
  ArrayRef<int64_t> positions = shape.slice(dim, count);
  SmallVector<int64_t> result(shape.take_front(dim));
  result.push_back(size);
  result.append(shape.begin() + dim + count, shape.end());
  auto reach = static_cast<double>(size);
  Value indices = g.fresh(g.dice.oneIn(3) ? g.at().getI32Type() : g.i64(), positions, {-1.5 * reach, 1.5 * reach});
  double terms = 1;
  for (int64_t length : positions)
    terms *= static_cast<double>(length);
  return g.add<dfg::GatherGradientOp>(Rounding::Inexact, around(2 * terms), g.type(elementOf(x), result), x, indices,
                                      dim);
}

/// The value is the rows on the left; a dimension of one of theirs may repeat.
Value buildScatterDot(GraphBuilder &g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  SmallVector<int64_t> rows(shape.drop_back()), right;
  double terms = 1;
  for (int64_t &size : rows) {
    if (size == 1)
      size = g.size();
    terms *= static_cast<double>(size);
    right.push_back(g.dice.oneIn(4) ? 1 : size);
  }
  right.push_back(std::min<int64_t>(g.size(), 6));
  int64_t matrices = g.size();
  auto reach = static_cast<double>(matrices);
  Value other = g.any(elementOf(x), right, small);
  Value indices = g.fresh(g.dice.oneIn(3) ? g.at().getI32Type() : g.i64(), rows, {-0.3 * reach, 1.3 * reach});
  return g.add<dfg::ScatterDotOp>(Rounding::Inexact, around(4 * terms),
                                  g.type(elementOf(x), {matrices, shape.back(), right.back()}), x, other, indices,
                                  IntegerAttr());
}

} // namespace

void addGradientTemplates(TemplateList &list) {
  list.push_back({"conv_filter_gradient", Elements::Float, 3, 5, small, false, buildConvFilterGradient});
  list.push_back({"pool_gradient", Elements::Float, 3, 5, small, true, buildPoolGradient});
  list.push_back({"gather_gradient", Elements::Float, 0, 4, small, false, buildGatherGradient});
  list.push_back({"scatter_dot", Elements::Float, 1, 4, small, false, buildScatterDot});
}

} // namespace cleave::test
