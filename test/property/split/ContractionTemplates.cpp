// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products, convolutions and pooling.

#include "test/property/split/OperatorTemplates.h"

using namespace mlir;

namespace cleave::test {

SmallVector<int64_t> Window::resultShape(ArrayRef<int64_t> leading, ArrayRef<int64_t> space) const {
  SmallVector<int64_t> shape(leading);
  for (auto [i, size] : llvm::enumerate(space)) {
    int64_t room = size + pads[i] + pads[space.size() + i] - (dilations[i] * (sizes[i] - 1) + 1);
    shape.push_back(room / strides[i] + 1);
  }
  return shape;
}

Window randomWindow(GraphBuilder &g, ArrayRef<int64_t> space) {
  Window window;
  SmallVector<int64_t> after;
  for (int64_t size : space) {
    int64_t width = g.dice.between(1, std::min<int64_t>(size, 3));
    bool isDilated = 2 * (width - 1) + 1 <= size && g.dice.oneIn(4);
    int64_t most = isDilated ? 0 : width - 1;
    window.sizes.push_back(width);
    window.strides.push_back(g.dice.between(1, 3));
    window.dilations.push_back(isDilated ? 2 : 1);
    window.pads.push_back(g.dice.between(0, most));
    after.push_back(g.dice.between(0, most));
    window.elements *= width;
  }
  window.pads.append(after);
  return window;
}

int64_t randomGroups(GraphBuilder &g, int64_t channels) {
  SmallVector<int64_t> divisors;
  for (int64_t i = 1; i <= channels; ++i)
    if (channels % i == 0)
      divisors.push_back(i);
  return g.dice.oneIn(2) ? 1 : g.dice.of<int64_t>(divisors);
}

namespace {

double largest(Bounds bounds) { return std::max(std::fabs(bounds.low), std::fabs(bounds.high)); }
constexpr Bounds small = {-2, 2};

/// Every dimension of `lhs` becomes a batch, free or contracting one.
Value buildDotGeneral(GraphBuilder &g, Value lhs) {
  Dice &dice = g.dice;
  SmallVector<int64_t> lhsBatch, lhsContracting, rhsBatch, rhsContracting, rhsShape;
  // The roles of the other operand's dimensions: (lhs dimension, or -1 for a free one).
  SmallVector<int64_t> roles;
  int64_t depth = 1;
  for (auto [index, size] : llvm::enumerate(shapeOf(lhs))) {
    auto dim = static_cast<int64_t>(index);
    switch (dice.below(3)) {
    case 0:
      lhsBatch.push_back(dim);
      roles.push_back(dim);
      break;
    case 1:
      lhsContracting.push_back(dim);
      roles.push_back(dim);
      depth *= size;
      break;
    default:
      break;
    }
  }
  for (int64_t i = dice.between(0, 2); i > 0; --i)
    roles.push_back(-1);
  dice.shuffle(roles);
  dice.shuffle(lhsContracting);
  rhsBatch.resize(lhsBatch.size());
  rhsContracting.resize(lhsContracting.size());
  for (auto [index, role] : llvm::enumerate(roles)) {
    auto dim = static_cast<int64_t>(index);
    if (role < 0) {
      rhsShape.push_back(std::min<int64_t>(g.size(), 6));
      continue;
    }
    rhsShape.push_back(shapeOf(lhs)[role]);
    if (auto *batch = llvm::find(lhsBatch, role); batch != lhsBatch.end())
      rhsBatch[batch - lhsBatch.begin()] = dim;
    else
      rhsContracting[llvm::find(lhsContracting, role) - lhsContracting.begin()] = dim;
  }
  Value rhs = g.any(elementOf(lhs), rhsShape, small);
  double magnitude = static_cast<double>(depth) * largest(g.boundsOf(lhs)) * largest(g.boundsOf(rhs));
  return g.add<dfg::DotGeneralOp>(Rounding::Inexact, Bounds{-magnitude, magnitude}, lhs, rhs, lhsBatch, rhsBatch,
                                  lhsContracting, rhsContracting);
}

/// The value is rows, whose dimensions are those of the indices but the last; some of the indices have no matrix.
Value buildGatherDot(GraphBuilder &g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  SmallVector<int64_t> rows(shape.drop_back());
  for (int64_t &size : rows)
    if (size == 1)
      size = g.size();
  int64_t matrices = g.size(), columns = std::min<int64_t>(g.size(), 6), depth = shape.back();
  bool transposed = g.dice.oneIn(2);
  SmallVector<int64_t> rhsShape = {matrices, transposed ? columns : depth, transposed ? depth : columns};
  auto reach = static_cast<double>(matrices);
  Value rhs = g.any(elementOf(x), rhsShape, small);
  Value indices = g.fresh(g.dice.oneIn(3) ? g.at().getI32Type() : g.i64(), rows, {-0.3 * reach, 1.3 * reach});
  double magnitude = static_cast<double>(depth) * largest(g.boundsOf(x)) * largest(g.boundsOf(rhs));
  return g.add<dfg::GatherDotOp>(Rounding::Inexact, Bounds{-magnitude, magnitude}, x, rhs, indices,
                                 transposed ? g.at().getUnitAttr() : UnitAttr(), IntegerAttr());
}

Value buildConv(GraphBuilder &g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  Window window = randomWindow(g, shape.drop_front(2));
  int64_t groups = randomGroups(g, shape[1]), outputs = g.dice.between(1, groups > 3 ? 2 : 5);
  SmallVector<int64_t> filterShape = {groups * outputs, shape[1] / groups};
  filterShape.append(window.sizes);
  Value filter = g.any(elementOf(x), filterShape, small);
  double magnitude =
      static_cast<double>(window.elements * filterShape[1]) * largest(g.boundsOf(x)) * largest(g.boundsOf(filter));
  return g.add<dfg::ConvOp>(Rounding::Inexact, Bounds{-magnitude, magnitude}, x, filter, window.strides, window.pads,
                            window.dilations, groups);
}

Value buildConvTranspose(GraphBuilder &g, Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  Window window;
  SmallVector<int64_t> after, padding;
  for (size_t i = 2; i < shape.size(); ++i) {
    window.sizes.push_back(g.dice.between(1, 3));
    window.strides.push_back(g.dice.between(1, 2));
    window.dilations.push_back(g.dice.between(1, 2));
    int64_t size = (shape[i] - 1) * window.strides.back() + window.dilations.back() * (window.sizes.back() - 1) + 1;
    window.pads.push_back(g.dice.between(0, std::min<int64_t>(1, (size - 1) / 2)));
    after.push_back(g.dice.between(0, std::min<int64_t>(1, (size - 1) / 2)));
    padding.push_back(g.dice.between(0, window.strides.back() - 1));
    window.elements *= window.sizes.back();
  }
  window.pads.append(after);
  int64_t groups = randomGroups(g, shape[1]), outputs = g.dice.between(1, groups > 3 ? 2 : 5);
  SmallVector<int64_t> filterShape = {shape[1], outputs};
  filterShape.append(window.sizes);
  Value filter = g.any(elementOf(x), filterShape, small);
  double magnitude =
      static_cast<double>(window.elements * shape[1]) * largest(g.boundsOf(x)) * largest(g.boundsOf(filter));
  return g.add<dfg::ConvTransposeOp>(Rounding::Inexact, Bounds{-magnitude, magnitude}, x, filter, window.strides,
                                     window.pads, window.dilations, padding, groups);
}

Value buildPool(GraphBuilder &g, Value x) {
  Window window = randomWindow(g, shapeOf(x).drop_front(2));
  bool isMax = !isa<FloatType>(elementOf(x)) || g.dice.oneIn(2);
  return g.add<dfg::PoolOp>(isMax ? Rounding::Exact : Rounding::Inexact, g.boundsOf(x), x,
                            isMax ? dfg::PoolKind::Max : dfg::PoolKind::Average, window.sizes, window.strides,
                            window.pads, window.dilations, !isMax && g.dice.oneIn(2));
}

} // namespace

void addContractionTemplates(TemplateList &list) {
  list.push_back({"dot_general", Elements::Number, 1, 4, small, false, buildDotGeneral});
  list.push_back({"gather_dot", Elements::Float, 1, 4, small, false, buildGatherDot});
  list.push_back({"conv", Elements::Number, 3, 5, small, false, buildConv});
  list.push_back({"conv_transpose", Elements::Float, 3, 5, small, false, buildConvTranspose});
  list.push_back({"pool", Elements::Number, 3, 5, {-20, 20}, false, buildPool});
}

} // namespace cleave::test
