// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that move elements.

#include "test/property/split/OperatorTemplates.h"

#include <numeric>

using namespace mlir;

namespace cleave::test {
namespace {

constexpr Bounds wide = {-100, 100};

template <typename Op, typename... Args> Value moved(GraphBuilder &g, Value x, Args &&...args) {
  return g.add<Op>(Rounding::Exact, g.boundsOf(x), x, std::forward<Args>(args)...);
}

/// Splits and joins neighbouring dimensions, or deals the elements out anew.
Value buildReshape(GraphBuilder &g, Value x) {
  SmallVector<int64_t> shape;
  for (int64_t size : shapeOf(x)) {
    SmallVector<int64_t> divisors;
    for (int64_t i = 1; i <= size; ++i)
      if (size % i == 0)
        divisors.push_back(i);
    int64_t first = g.dice.of<int64_t>(divisors);
    switch (g.dice.below(3)) {
    case 0:
      shape.push_back(first);
      shape.push_back(size / first);
      break;
    case 1:
      if (!shape.empty()) {
        shape.back() *= size;
        break;
      }
      [[fallthrough]];
    default:
      shape.push_back(size);
    }
  }
  if (g.dice.oneIn(6))
    g.dice.shuffle(shape);
  return g.add<dfg::ReshapeOp>(Rounding::Exact, g.boundsOf(x), g.type(elementOf(x), shape), x);
}

Value buildTranspose(GraphBuilder &g, Value x) {
  SmallVector<int64_t> permutation(shapeOf(x).size());
  std::iota(permutation.begin(), permutation.end(), 0);
  g.dice.shuffle(permutation);
  return moved<dfg::TransposeOp>(g, x, permutation);
}

Value buildBroadcast(GraphBuilder &g, Value x) {
  SmallVector<int64_t> shape = shapeOf(x).size() < 4 ? g.shape(0, 1) : SmallVector<int64_t>();
  for (int64_t size : shapeOf(x))
    shape.push_back(size == 1 ? g.dice.between(1, 6) : size);
  return g.add<dfg::BroadcastOp>(Rounding::Exact, g.boundsOf(x), g.type(elementOf(x), shape), x);
}

/// Pieces of one size half of the time: they can be cut.
Value buildConcat(GraphBuilder &g, Value x) {
  size_t dim = g.dice.below(shapeOf(x).size());
  bool alike = g.dice.oneIn(2);
  SmallVector<Value> pieces = {x};
  for (int64_t i = g.dice.between(0, 2); i > 0; --i) {
    SmallVector<int64_t> shape(shapeOf(x));
    if (!alike)
      shape[dim] = g.size();
    pieces.push_back(g.any(elementOf(x), shape, wide));
  }
  g.dice.shuffle(pieces);
  Bounds bounds = g.boundsOf(x);
  for (Value piece : pieces)
    bounds = {std::min(bounds.low, g.boundsOf(piece).low), std::max(bounds.high, g.boundsOf(piece).high)};
  return g.add<dfg::ConcatOp>(Rounding::Exact, bounds, pieces, dim);
}

/// Whole dimensions, one of several blocks of a size, and any range.
Value buildSlice(GraphBuilder &g, Value x) {
  SmallVector<int64_t> starts, limits, strides;
  for (int64_t size : shapeOf(x)) {
    int64_t start = 0, limit = size, stride = 1;
    if (size % 2 == 0 && g.dice.oneIn(3)) {
      start = g.dice.oneIn(2) ? 0 : size / 2;
      limit = start + size / 2;
    } else if (g.dice.oneIn(2)) {
      start = g.dice.between(0, size - 1);
      limit = g.dice.between(start + 1, size);
      stride = g.dice.between(1, 2);
    }
    starts.push_back(start);
    limits.push_back(limit);
    strides.push_back(stride);
  }
  return moved<dfg::SliceOp>(g, x, starts, limits, strides);
}

Value buildReverse(GraphBuilder &g, Value x) {
  SmallVector<int64_t> dims;
  for (size_t i = 0; i < shapeOf(x).size(); ++i)
    if (g.dice.oneIn(2))
      dims.push_back(static_cast<int64_t>(i));
  return moved<dfg::ReverseOp>(g, x, dims);
}

Value buildPad(GraphBuilder &g, Value x) {
  SmallVector<int64_t> low, high;
  for (size_t i = 0; i < shapeOf(x).size(); ++i) {
    low.push_back(g.dice.oneIn(2) ? 0 : g.dice.between(0, 2));
    high.push_back(g.dice.oneIn(2) ? 0 : g.dice.between(0, 2));
  }
  Value value = g.any(elementOf(x), {}, {-3, 3});
  Bounds bounds = g.boundsOf(x), other = g.boundsOf(value);
  bounds = {std::min(bounds.low, other.low), std::max(bounds.high, other.high)};
  return g.add<dfg::PadOp>(Rounding::Exact, bounds, x, value, low, high);
}

/// Positions from the end and outside are among the indices.
Value buildGather(GraphBuilder &g, Value x) {
  size_t dim = g.dice.below(shapeOf(x).size());
  auto size = static_cast<double>(shapeOf(x)[dim]);
  Type element = g.dice.oneIn(3) ? g.at().getI32Type() : g.i64();
  SmallVector<int64_t> shape = g.shape(0, shapeOf(x).size() > 3 ? 1 : 2);
  Value indices = g.fresh(element, shape, {-1.5 * size, 1.5 * size});
  return moved<dfg::GatherOp>(g, x, indices, dim);
}

/// Does not read its value.
Value buildIota(GraphBuilder &g, Value x) {
  SmallVector<int64_t> shape = g.shape(1, 4);
  size_t dim = g.dice.below(shape.size());
  Bounds bounds = {0, static_cast<double>(shape[dim])};
  return g.add<dfg::IotaOp>(Rounding::Exact, bounds, g.type(elementOf(x), shape), dim);
}

Value buildMask(GraphBuilder &g, Value x) {
  SmallVector<Value> extents;
  SmallVector<int64_t> dims, inner, sizes;
  for (auto [dim, size] : llvm::enumerate(shapeOf(x))) {
    if (g.dice.oneIn(2))
      continue;
    int64_t behind = size % 2 == 0 && g.dice.oneIn(2) ? 2 : 1;
    dims.push_back(static_cast<int64_t>(dim));
    inner.push_back(behind);
    sizes.push_back(size / behind);
    extents.push_back(g.input(g.i64(), {}, {0, static_cast<double>(sizes.back())}));
  }
  double fill = elementOf(x).isInteger(1) ? 0 : static_cast<double>(g.dice.between(-3, 3));
  Bounds bounds = g.boundsOf(x);
  return g.add<dfg::MaskOp>(Rounding::Exact, Bounds{std::min(bounds.low, fill), std::max(bounds.high, fill)}, x,
                            extents, g.array(dims), g.array(inner), g.array(sizes), g.at().getF64FloatAttr(fill));
}

Value buildBarrier(GraphBuilder &g, Value x) {
  return moved<dfg::BarrierOp>(g, x, static_cast<uint64_t>(g.dice.between(0, 3)));
}

} // namespace

void addMovementTemplates(TemplateList &list) {
  list.push_back({"reshape", Elements::Any, 0, 4, wide, false, buildReshape});
  list.push_back({"transpose", Elements::Any, 1, 4, wide, false, buildTranspose});
  list.push_back({"broadcast", Elements::Any, 0, 4, wide, false, buildBroadcast});
  list.push_back({"concat", Elements::Any, 1, 4, wide, false, buildConcat});
  list.push_back({"slice", Elements::Any, 1, 4, wide, false, buildSlice});
  list.push_back({"reverse", Elements::Any, 0, 4, wide, false, buildReverse});
  list.push_back({"pad", Elements::Any, 1, 4, wide, false, buildPad});
  list.push_back({"gather", Elements::Any, 1, 4, wide, false, buildGather});
  list.push_back({"iota", Elements::Number, 0, 4, wide, false, buildIota});
  list.push_back({"mask", Elements::Any, 1, 4, wide, false, buildMask});
  list.push_back({"barrier", Elements::Any, 0, 4, wide, false, buildBarrier});
}

} // namespace cleave::test
