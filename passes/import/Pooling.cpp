// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pooling.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"
#include "passes/import/Window.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace cleave {

static Value pool(NodeImporter &node, Value input, dfg::PoolKind kind, const Window &window, bool includePad) {
  SmallVector<NamedAttribute> attributes = {
      node.getBuilder().getNamedAttr("kind", dfg::PoolKindAttr::get(node.getContext(), kind)),
      node.attr("window", window.sizes), node.attr("strides", window.strides), node.attr("pads", window.pads),
      node.attr("dilations", window.dilations)};
  if (includePad)
    attributes.push_back(node.flag("count_include_pad"));
  return node.emit<dfg::PoolOp>(input, attributes);
}

/// Windows of more elements than this give no positions: there is one slice for each.
static constexpr int64_t largestWindow = 4096;

/// Moves the window's pads into a `dfg.pad` with a value.
static Value padWith(NodeImporter &node, Value input, double value, Window &window) {
  size_t rank = window.sizes.size();
  SmallVector<int64_t> low(rank + 2, 0), high(rank + 2, 0);
  for (size_t i = 0; i < rank; ++i) {
    low[i + 2] = window.pads[i];
    high[i + 2] = window.pads[rank + i];
  }
  window.pads.assign(2 * rank, 0);
  Value fill = node.scalar(NodeImporter::elementOf(input), value);
  return node.emit<dfg::PadOp>({input, fill}, {node.attr("low", low), node.attr("high", high)});
}

/// A number that no element is smaller than.
static double lowest(Type element) {
  if (isa<FloatType>(element))
    return -std::numeric_limits<double>::infinity();
  return -std::ldexp(1.0, static_cast<int>(element.getIntOrFloatBitWidth()) - 1);
}

/// Where each window's first largest element lies in the whole input, counted in row-major order, or with the spatial
/// dimensions in column-major order. The elements of all windows, one slice a place in the window, are searched.
static Value positionsOfMax(NodeImporter &node, const Window &window, bool columnMajor) {
  ArrayRef<int64_t> shape = node.shape(0), spatial = shape.drop_front(2);
  size_t space = spatial.size();
  SmallVector<int64_t> steps(space, 1);
  for (size_t i = 1; i < space; ++i) {
    size_t slower = columnMajor ? i : space - 1 - i, faster = columnMajor ? i - 1 : space - i;
    steps[slower] = steps[faster] * spatial[faster];
  }
  Window inside = window;
  Value padded = padWith(node, node.input(0), lowest(node.type(0).getElementType()), inside);
  if (!padded)
    return {};
  ArrayRef<int64_t> paddedShape = NodeImporter::typeOf(padded).getShape();
  SmallVector<int64_t> result(shape.take_front(2));
  for (size_t i = 0; i < space; ++i)
    result.push_back((paddedShape[i + 2] - window.span(i)) / window.strides[i] + 1);
  SmallVector<int64_t> stacked(result), places;
  stacked.insert(stacked.begin() + 2, 1);
  SmallVector<Value> slices;
  for (int64_t place = 0, count = productOf(window.sizes); place < count; ++place) {
    Value slice = padded;
    SmallVector<int64_t> starts(space + 2, 0), limits(paddedShape), strides(space + 2, 1);
    int64_t position = 0;
    for (size_t i = space, rest = place; i-- > 0; rest /= window.sizes[i]) {
      int64_t offset = static_cast<int64_t>(rest % window.sizes[i]) * window.dilations[i];
      position += offset * steps[i];
      starts[i + 2] = offset;
      limits[i + 2] = offset + (result[i + 2] - 1) * window.strides[i] + 1;
      strides[i + 2] = window.strides[i];
    }
    slice = node.emit<dfg::SliceOp>(
        slice, {node.attr("starts", starts), node.attr("limits", limits), node.attr("strides", strides)});
    slices.push_back(node.reshape(slice, stacked));
    places.push_back(position);
  }
  auto kind = dfg::ArgKindAttr::get(node.getContext(), dfg::ArgKind::Max);
  Value largest =
      node.emit<dfg::ArgReduceOp>(node.emit<dfg::ConcatOp>(slices, node.attr("dim", int64_t(2))),
                                  {node.getBuilder().getNamedAttr("kind", kind), node.attr("dim", int64_t(2))});
  Value sum = node.emit<dfg::GatherOp>({integerConstant(node, places, static_cast<int64_t>(places.size())), largest},
                                       node.attr("dim", int64_t(0)));
  auto addAlong = [&](int64_t dim, int64_t start, int64_t step) {
    SmallVector<int64_t> values, along(result.size(), 1);
    for (int64_t i = 0; i < result[dim]; ++i)
      values.push_back(start + i * step);
    along[dim] = result[dim];
    if (llvm::all_of(values, [](int64_t value) { return value == 0; }))
      return;
    sum = node.emit<dfg::AddOp>({sum, integerConstant(node, values, along)});
  };
  int64_t image = productOf(spatial);
  addAlong(0, 0, shape[1] * image);
  addAlong(1, 0, image);
  for (size_t i = 0; i < space; ++i)
    addAlong(static_cast<int64_t>(i) + 2, -window.pads[i] * steps[i], window.strides[i] * steps[i]);
  return sum;
}

/// A pooling of `input`, by the attributes of the node, whose window is `window` then.
static FailureOr<Value> buildPool(NodeImporter &node, Value input, dfg::PoolKind kind, FailureOr<Window> &window) {
  ArrayRef<int64_t> spatial = NodeImporter::typeOf(input).getShape().drop_front(2);
  window = readWindow(node, spatial, {});
  if (failed(window))
    return failure();
  bool includePad = kind == dfg::PoolKind::Average && node.integer("count_include_pad", 0);
  if (node.integer("ceil_mode", 0)) {
    SmallVector<int64_t> extra = extendForCeil(*window, spatial);
    // The declared pads count, those that only complete the last window never do.
    if (includePad && llvm::any_of(extra, [](int64_t pad) { return pad > 0; })) {
      input = padWith(node, input, 0.0, *window);
      includePad = false;
    }
    for (size_t i = 0; i < extra.size(); ++i)
      window->pads[extra.size() + i] += extra[i];
  }
  return pool(node, input, kind, *window, includePad);
}

FailureOr<Value> buildAveragePool(NodeImporter &node, Value input) {
  FailureOr<Window> window = failure();
  return buildPool(node, input, dfg::PoolKind::Average, window);
}

static ImportResults importPool(NodeImporter &node, dfg::PoolKind kind) {
  if (node.rank(0) < 3)
    return node.error("expects an input of rank 3 at least");
  FailureOr<Window> window = failure();
  FailureOr<Value> pooled = buildPool(node, node.input(0), kind, window);
  if (failed(pooled))
    return failure();
  SmallVector<NodeResult, 1> results = {*pooled};
  if (node.hasOutput(1)) {
    if (productOf(window->sizes) > largestWindow)
      return node.unsupported("positions in windows of more than " + Twine(largestWindow) + " elements are not known");
    results.push_back(positionsOfMax(node, *window, node.integer("storage_order", 0)));
  }
  return results;
}

static ImportResults importMaxPool(NodeImporter &node) { return importPool(node, dfg::PoolKind::Max); }
static ImportResults importAveragePool(NodeImporter &node) { return importPool(node, dfg::PoolKind::Average); }

Value buildGlobalPool(NodeImporter &node, Value input, dfg::PoolKind kind) {
  if (!input)
    return {};
  Window window;
  ArrayRef<int64_t> spatial = NodeImporter::typeOf(input).getShape().drop_front(2);
  window.sizes.assign(spatial.begin(), spatial.end());
  window.strides.assign(window.sizes.size(), 1);
  window.dilations = window.strides;
  window.pads.assign(2 * window.sizes.size(), 0);
  return pool(node, input, kind, window, false);
}

template <dfg::PoolKind kind> static ImportResults importGlobalPool(NodeImporter &node) {
  if (node.rank(0) < 3 || node.type(0).getNumElements() == 0)
    return node.error("expects an input of rank 3 at least that is not empty");
  return oneResult(buildGlobalPool(node, node.input(0), kind));
}

/// Puts each element where the pooling took it from, into zeros of the size of the pooling's input; a larger result is
/// that with zeros behind.
static ImportResults importMaxUnpool(NodeImporter &node) {
  if (node.rank(0) < 3 || node.shape(0) != node.shape(1))
    return node.error("expects an input of rank 3 at least, and a position for each element");
  FailureOr<Window> window = readWindow(node, node.shape(0).drop_front(2), {});
  if (failed(window))
    return failure();
  int64_t rank = node.rank(0), count = node.type(0).getNumElements();
  SmallVector<int64_t> shape(node.shape(0).take_front(2));
  for (int64_t i = 0; i < rank - 2; ++i) {
    int64_t size = 0, rest = window->sizes[i] - window->pads[i] - window->pads[rank - 2 + i];
    if (__builtin_mul_overflow(node.shape(0)[i + 2] - 1, window->strides[i], &size) || (size += rest) < 0)
      return node.error("expects padding and strides of a tensor's size");
    shape.push_back(size);
  }
  if (auto type = makeTensorType(shape, node.type(0).getElementType()); !type)
    return node.error("gives a tensor that " + llvm::toString(type.takeError()));
  Type element = node.type(0).getElementType();
  Value zeros = node.broadcast(node.scalar(element, 0.0), productOf(shape));
  Value result = node.emit<dfg::ScatterElementsOp>(
      {zeros, node.reshape(node.input(1), count), node.reshape(node.input(0), count)}, node.attr("dim", int64_t(0)));
  result = node.reshape(result, shape);
  if (!node.hasInput(2))
    return oneResult(result);
  FailureOr<SmallVector<int64_t>> wanted = node.knownIntegers(2);
  if (failed(wanted))
    return failure();
  SmallVector<int64_t> high;
  for (auto [size, whole] : llvm::zip(shape, *wanted))
    high.push_back(whole - size);
  if (wanted->size() != shape.size() || llvm::any_of(high, [](int64_t more) { return more < 0; }))
    return node.error("expects a result no smaller than the input of the pooling");
  return oneResult(
      node.emit<dfg::PadOp>({result, node.scalar(element, 0.0)},
                            {node.attr("low", SmallVector<int64_t>(shape.size(), 0)), node.attr("high", high)}));
}

/// The root of a sum of powers.
static Value rootOfPowers(NodeImporter &node, int64_t power, llvm::function_ref<Value(Value)> sum) {
  Type element = node.type(0).getElementType();
  Value magnitude = node.emit<dfg::AbsOp>(node.input(0));
  if (power == 1)
    return sum(magnitude);
  if (power == 2)
    return node.emit<dfg::SqrtOp>(sum(node.emit<dfg::MulOp>({magnitude, magnitude})));
  auto exponent = static_cast<double>(power);
  Value powers = node.emit<dfg::PowOp>({magnitude, node.scalar(element, exponent)});
  return node.emit<dfg::PowOp>({sum(powers), node.scalar(element, 1.0 / exponent)});
}

/// Zeros around the image add nothing: an average that counts them, times the size of the window, is the sum.
static ImportResults importLpPool(NodeImporter &node) {
  if (node.rank(0) < 3)
    return node.error("expects an input of rank 3 at least");
  ArrayRef<int64_t> spatial = node.shape(0).drop_front(2);
  FailureOr<Window> window = readWindow(node, spatial, {});
  int64_t power = node.integer("p", 2);
  if (failed(window))
    return failure();
  if (power < 1)
    return node.error("expects \"p\" to be positive, got " + Twine(power));
  if (node.integer("ceil_mode", 0))
    for (auto [i, extra] : llvm::enumerate(extendForCeil(*window, spatial)))
      window->pads[spatial.size() + i] += extra;
  return oneResult(rootOfPowers(node, power, [&](Value powers) -> Value {
    Value average = powers ? pool(node, powers, dfg::PoolKind::Average, *window, /*includePad=*/true) : Value();
    auto size = static_cast<double>(productOf(window->sizes));
    return node.emit<dfg::MulOp>({average, node.scalar(node.type(0).getElementType(), size)});
  }));
}

static ImportResults importGlobalLpPool(NodeImporter &node) {
  int64_t rank = node.rank(0), power = node.integer("p", 2);
  if (rank < 3 || power < 1)
    return node.error("expects an input of rank 3 at least and a positive \"p\"");
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(2, rank));
  return oneResult(rootOfPowers(
      node, power, [&](Value powers) { return node.reduce(powers, dfg::ReduceKind::Sum, dims, /*keepDims=*/true); }));
}

void addPoolingOperators(OperatorTable &table) {
  table.add("MaxPool", {importMaxPool, 1, 1, Elements::Number});
  table.add("AveragePool", {importAveragePool, 1, 1, Elements::Float});
  table.add("MaxUnpool", {importMaxUnpool, 2, 3, Elements::Float, 9});
  table.add("LpPool", {importLpPool, 1, 1, Elements::Float});
  table.add("GlobalLpPool", {importGlobalLpPool, 1, 1, Elements::Float});
  table.add("GlobalMaxPool", {importGlobalPool<dfg::PoolKind::Max>, 1, 1, Elements::Float, 1});
  table.add("GlobalAveragePool", {importGlobalPool<dfg::PoolKind::Average>, 1, 1, Elements::Float, 1});
}

} // namespace cleave
