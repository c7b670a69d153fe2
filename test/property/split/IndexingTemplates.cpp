// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators whose reads or writes depend on positions, and those that find positions.

#include "test/property/split/OperatorTemplates.h"

using namespace mlir;

namespace cleave::test {
namespace {

constexpr Bounds wide = {-20, 20};

/// The shape of positions: the value's, with `size` along `dim`, and here and there one.
SmallVector<int64_t> positionsShape(GraphBuilder &g, Value x, size_t dim, int64_t size) {
  SmallVector<int64_t> shape(shapeOf(x));
  for (int64_t &other : shape)
    if (g.dice.oneIn(4))
      other = 1;
  shape[dim] = size;
  return shape;
}

/// Positions along `dim`; some count from the end, some lie outside.
Value positions(GraphBuilder &g, Value x, size_t dim, int64_t size) {
  auto reach = static_cast<double>(shapeOf(x)[dim]);
  return g.fresh(g.dice.oneIn(3) ? g.at().getI32Type() : g.i64(), positionsShape(g, x, dim, size),
                 {-1.3 * reach, 1.3 * reach});
}

Value buildGatherElements(GraphBuilder &g, Value x) {
  size_t dim = g.dice.below(shapeOf(x).size());
  Value indices = positions(g, x, dim, g.size());
  return g.add<dfg::GatherElementsOp>(Rounding::Exact, g.boundsOf(x), x, indices, dim);
}

Value buildScatterElements(GraphBuilder &g, Value x) {
  using Kind = dfg::ReduceKind;
  size_t dim = g.dice.below(shapeOf(x).size());
  int64_t size = g.size();
  Value indices = positions(g, x, dim, size);
  SmallVector<int64_t> shape(shapeOf(x));
  shape[dim] = size;
  Value updates = g.any(elementOf(x), shape, {-2, 2});
  dfg::ReduceKindAttr reduction;
  Bounds bounds = {-21, 21};
  bool isExact = true;
  if (!elementOf(x).isInteger(1) && g.dice.oneIn(2)) {
    Kind kind = g.dice.of<Kind>({Kind::Sum, Kind::Max, Kind::Min});
    reduction = dfg::ReduceKindAttr::get(g.at().getContext(), kind);
    isExact = kind != Kind::Sum;
    bounds = {-50, 50};
  }
  return g.add<dfg::ScatterElementsOp>(isExact ? Rounding::Exact : Rounding::Inexact, bounds, x, indices, updates,
                                       g.at().getI64IntegerAttr(static_cast<int64_t>(dim)), reduction);
}

Value buildCumulativeSum(GraphBuilder &g, Value x) {
  size_t dim = g.dice.below(shapeOf(x).size());
  double magnitude = 20.0 * static_cast<double>(shapeOf(x)[dim]);
  return g.add<dfg::CumulativeSumOp>(Rounding::Inexact, Bounds{-magnitude, magnitude}, x, dim, g.dice.oneIn(2));
}

Value buildArgSort(GraphBuilder &g, Value x) {
  size_t dim = g.dice.below(shapeOf(x).size());
  return g.add<dfg::ArgSortOp>(Rounding::Exact, Bounds{0, static_cast<double>(shapeOf(x)[dim])}, x, dim,
                               g.dice.oneIn(2));
}

} // namespace

void addIndexingTemplates(TemplateList &list) {
  list.push_back({"gather_elements", Elements::Any, 1, 4, wide, false, buildGatherElements});
  list.push_back({"scatter_elements", Elements::Any, 1, 4, wide, false, buildScatterElements});
  list.push_back({"cumulative_sum", Elements::Number, 1, 4, wide, false, buildCumulativeSum});
  list.push_back({"arg_sort", Elements::Number, 1, 4, wide, true, buildArgSort});
}

} // namespace cleave::test
