// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sampling of images at positions that are data: GridSample and AffineGrid.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"

using namespace mlir;

namespace cleave {

namespace {
/// Samples along one dimension: for each of the input elements that a sample is made of, where it lies and its weight,
/// as tensors with one element a sample.
struct DimTaps {
  SmallVector<Value> positions, weights;
};

class GridSampler {
public:
  GridSampler(NodeImporter &node, std::string mode, std::string padding, bool alignCorners)
      : node(node), mode(std::move(mode)), padding(std::move(padding)), alignCorners(alignCorners),
        element(node.type(1).getElementType()) {}

  ImportResults run();

private:
  Value add(Value a, Value b) { return node.emit<dfg::AddOp>({a, b}); }
  Value sub(Value a, Value b) { return node.emit<dfg::SubOp>({a, b}); }
  Value mul(Value a, Value b) { return node.emit<dfg::MulOp>({a, b}); }
  Value real(double value) { return node.scalar(element, value); }
  Value integer(int64_t value) { return integerConstant(node, value, {}); }

  Value sourceOf(Value grid, int64_t size);
  DimTaps tapsAlong(Value grid, int64_t size);
  void settle(DimTaps &taps, size_t number, int64_t size);
  Value cubicWeight(Value distance, bool isInner);

  NodeImporter &node;
  std::string mode, padding;
  bool alignCorners;
  Type element;
};
} // namespace

/// From [-1, 1], which are the centres of the outermost elements or their outer edges, to positions.
Value GridSampler::sourceOf(Value grid, int64_t size) {
  auto length = static_cast<double>(size);
  if (alignCorners)
    return mul(add(grid, real(1.0)), real((length - 1.0) / 2.0));
  return sub(mul(add(grid, real(1.0)), real(length / 2.0)), real(0.5));
}

/// Keys' kernel with a = -0.75, within one of the centre and between one and two.
Value GridSampler::cubicWeight(Value distance, bool isInner) {
  constexpr double a = -0.75;
  if (isInner) {
    Value line = sub(mul(distance, real(a + 2.0)), real(a + 3.0));
    return add(mul(mul(line, distance), distance), real(1.0));
  }
  Value square = add(mul(sub(mul(distance, real(a)), real(5.0 * a)), distance), real(8.0 * a));
  return sub(mul(square, distance), real(4.0 * a));
}

DimTaps GridSampler::tapsAlong(Value grid, int64_t size) {
  Type index = node.getBuilder().getI64Type();
  Value source = sourceOf(grid, size);
  DimTaps taps;
  if (mode == "nearest") {
    taps.positions.push_back(node.cast(node.emit<dfg::RoundOp>(source), index));
    taps.weights.push_back({});
  } else {
    Value floor = node.emit<dfg::FloorOp>(source), rest = sub(source, floor), first = node.cast(floor, index);
    Value complement = sub(real(1.0), rest);
    bool cubic = mode == "cubic";
    for (int64_t offset = cubic ? -1 : 0; offset <= (cubic ? 2 : 1); ++offset)
      taps.positions.push_back(offset ? add(first, integer(offset)) : first);
    if (cubic)
      taps.weights = {cubicWeight(add(rest, real(1.0)), false), cubicWeight(rest, true), cubicWeight(complement, true),
                      cubicWeight(add(complement, real(1.0)), false)};
    else
      taps.weights = {complement, rest};
  }
  for (size_t number = 0; number < taps.positions.size(); ++number)
    settle(taps, number, size);
  return taps;
}

/// Moves a position inside; where what is outside is zero, takes its weight away.
void GridSampler::settle(DimTaps &taps, size_t number, int64_t size) {
  Value &position = taps.positions[number], &weight = taps.weights[number];
  if (padding == "reflection") {
    // The input and its mirror image again and again: with the outermost elements twice, or once.
    int64_t period = alignCorners ? std::max<int64_t>(2 * (size - 1), 1) : 2 * size;
    Value inPeriod = node.emit<dfg::ModOp>({position, integer(period)});
    Value mirrored = sub(integer(alignCorners ? period : period - 1), inPeriod);
    position = node.emit<dfg::MinOp>({inPeriod, mirrored});
  }
  Value inside = node.emit<dfg::MaxOp>({node.emit<dfg::MinOp>({position, integer(size - 1)}), integer(0)});
  if (padding == "zeros") {
    Value isInside = compare(node, inside, dfg::Comparison::Equal, position);
    weight = weight ? node.emit<dfg::SelectOp>({isInside, weight, real(0.0)}) : node.cast(isInside, element);
  }
  position = inside;
}

/// The sum over all combinations of the dimensions' elements.
ImportResults GridSampler::run() {
  ArrayRef<int64_t> shape = node.shape(0), gridShape = node.shape(1);
  int64_t space = node.rank(0) - 2, samples = productOf(gridShape.slice(1, space));
  Value sum;
  SmallVector<DimTaps> taps;
  for (int64_t dim = 0; dim < space; ++dim) {
    Value grid = partOf(node, node.input(1), space + 1, space - 1 - dim, space - dim);
    taps.push_back(tapsAlong(node.reshape(grid, {shape[0], 1, samples}), shape[2 + dim]));
  }
  Value image = node.reshape(node.input(0), {shape[0], shape[1], productOf(shape.drop_front(2))});
  size_t perDim = taps[0].positions.size(), combinations = 1;
  for (int64_t dim = 0; dim < space; ++dim)
    combinations *= perDim;
  for (size_t combination = 0; combination < combinations; ++combination) {
    Value position, weight;
    size_t rest = combination;
    for (int64_t dim = 0; dim < space; ++dim, rest /= perDim) {
      Value at = taps[dim].positions[rest % perDim], factor = taps[dim].weights[rest % perDim];
      position = position ? add(mul(position, integer(shape[2 + dim])), at) : at;
      weight = weight && factor ? mul(weight, factor) : weight ? weight : factor;
    }
    Value part = node.emit<dfg::GatherElementsOp>({image, position}, node.attr("dim", int64_t(2)));
    if (weight)
      part = mul(part, node.cast(weight, node.type(0).getElementType()));
    sum = sum ? add(sum, part) : part;
  }
  SmallVector<int64_t> result(shape.take_front(2));
  llvm::append_range(result, gridShape.slice(1, space));
  return oneResult(node.reshape(sum, result));
}

static ImportResults importGridSample(NodeImporter &node) {
  std::string mode = node.text("mode", node.getVersion() < 20 ? "bilinear" : "linear");
  mode = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
  if (mode != "linear" && mode != "nearest" && mode != "cubic")
    return node.error("expects \"mode\" to be linear, nearest or cubic, got \"" + mode + "\"");
  std::string padding = node.text("padding_mode", "zeros");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return node.error("expects \"padding_mode\" to be zeros, border or reflection, got \"" + padding + "\"");
  int64_t rank = node.rank(0);
  if (rank < 3 || node.rank(1) != rank || node.shape(1).back() != rank - 2 || node.shape(0)[0] != node.shape(1)[0] ||
      !isa<FloatType>(node.type(1).getElementType()))
    return node.error("expects an image and a grid of positions in it");
  if (rank > 5)
    return node.unsupported("images of more than three dimensions are not known");
  if (productOf(node.shape(0).drop_front(2)) == 0)
    return node.error("expects an image that is not empty");
  return GridSampler(node, mode, padding, node.integer("align_corners", 0)).run();
}

/// Positions in [-1, 1] along a dimension.
static Value evenly(NodeImporter &node, Type element, ArrayRef<int64_t> shape, int64_t dim, bool alignCorners) {
  SmallVector<double> values;
  auto size = static_cast<double>(shape[dim]);
  for (int64_t i = 0; i < shape[dim]; ++i) {
    auto x = static_cast<double>(i);
    values.push_back(alignCorners ? (size > 1.0 ? 2.0 * x / (size - 1.0) - 1.0 : 0.0) : (2.0 * x + 1.0) / size - 1.0);
  }
  SmallVector<int64_t> along(shape.size(), 1);
  along[dim] = shape[dim];
  return node.broadcast(realConstant(node, element, values, along), shape);
}

/// Each position of an even grid, by an affine map of its batch element.
static ImportResults importAffineGrid(NodeImporter &node) {
  FailureOr<SmallVector<int64_t>> size = node.knownIntegers(1);
  if (failed(size))
    return failure();
  int64_t space = static_cast<int64_t>(size->size()) - 2;
  if (node.rank(0) != 3 || space < 1 || node.shape(0)[0] != (*size)[0] || node.shape(0)[1] != space ||
      node.shape(0)[2] != space + 1 || llvm::any_of(*size, [](int64_t length) { return length < 1; }))
    return node.error("expects an affine map and the size of its result");
  Type element = node.type(0).getElementType();
  SmallVector<int64_t> grid(size->begin() + 2, size->end()), result = {(*size)[0]};
  int64_t positions = productOf(grid);
  SmallVector<Value> parts;
  for (int64_t dim = space; dim-- > 0;)
    parts.push_back(
        node.reshape(evenly(node, element, grid, dim, node.integer("align_corners", 0)), {1, positions, 1}));
  parts.push_back(node.splat(RankedTensorType::get({1, positions, 1}, element), 1.0));
  Value homogeneous = node.emit<dfg::ConcatOp>(parts, node.attr("dim", int64_t(2)));
  // One row of the map after the other.
  SmallVector<Value> rows;
  for (int64_t row = 0; row < space; ++row)
    rows.push_back(node.reduce(node.emit<dfg::MulOp>({homogeneous, partOf(node, node.input(0), 1, row, row + 1)}),
                               dfg::ReduceKind::Sum, int64_t(2), /*keepDims=*/true));
  llvm::append_range(result, grid);
  result.push_back(space);
  return oneResult(node.reshape(node.emit<dfg::ConcatOp>(rows, node.attr("dim", int64_t(2))), result));
}

void addSamplingOperators(OperatorTable &table) {
  table.add("GridSample", {importGridSample, 2, 2, Elements::Float, 16});
  table.add("AffineGrid", {importAffineGrid, 2, 2, Elements::Float, 20});
}

} // namespace cleave
