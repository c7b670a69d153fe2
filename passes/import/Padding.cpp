// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Padding: with a constant, or with the tensor's own elements, mirrored, repeated or continued around.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

/// More padding than any tensor can have.
static constexpr int64_t largestPad = int64_t(1) << 44;

namespace {
/// What is added (or, where negative, taken away) before and after each dimension.
struct Pads {
  SmallVector<int64_t> low, high;
};
} // namespace

static FailureOr<Pads> readPads(NodeImporter &node) {
  auto given = node.attributeOrInput("pads", 1);
  if (failed(given))
    return failure();
  int64_t rank = node.rank(0);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (node.hasInput(3)) {
    FailureOr<SmallVector<int64_t>> some = node.knownIntegers(3);
    if (failed(some) || failed(node.axes(*some, rank)))
      return failure();
    axes = *some;
  }
  if (!*given || (*given)->size() != 2 * axes.size())
    return FailureOr<Pads>(node.error("expects " + Twine(2 * axes.size()) + " pads"));
  Pads pads{SmallVector<int64_t>(rank, 0), SmallVector<int64_t>(rank, 0)};
  for (auto [index, axis] : llvm::enumerate(axes)) {
    int64_t dim = axis < 0 ? axis + rank : axis, low = (**given)[index], high = (**given)[axes.size() + index];
    if (std::max(low, high) > largestPad || std::min(low, high) < -largestPad)
      return FailureOr<Pads>(node.error("expects pads of a tensor's size, got " + Twine(low) + " and " + Twine(high)));
    pads.low[dim] = low;
    pads.high[dim] = high;
  }
  return pads;
}

static Value cut(NodeImporter &node, Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> limits) {
  return node.emit<dfg::SliceOp>(value, {node.attr("starts", starts), node.attr("limits", limits),
                                         node.attr("strides", SmallVector<int64_t>(starts.size(), 1))});
}

/// Elements [start, limit) of one dimension.
static Value part(NodeImporter &node, Value value, int64_t dim, int64_t start, int64_t limit) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(value).getShape();
  SmallVector<int64_t> starts(shape.size(), 0), limits(shape);
  starts[dim] = start;
  limits[dim] = limit;
  return cut(node, value, starts, limits);
}

/// Takes away what negative pads say and sets them to zero.
static Value crop(NodeImporter &node, Value value, Pads &pads) {
  ArrayRef<int64_t> shape = NodeImporter::typeOf(value).getShape();
  SmallVector<int64_t> starts(shape.size(), 0), limits(shape);
  bool crops = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    starts[i] = std::max<int64_t>(-pads.low[i], 0);
    limits[i] = shape[i] - std::max<int64_t>(-pads.high[i], 0);
    crops |= starts[i] != 0 || limits[i] != shape[i];
    if (starts[i] > limits[i]) {
      (void)node.error("expects no more to be taken from dimension " + Twine(i) + " than its size " + Twine(shape[i]));
      return {};
    }
    pads.low[i] = std::max<int64_t>(pads.low[i], 0);
    pads.high[i] = std::max<int64_t>(pads.high[i], 0);
  }
  return crops ? cut(node, value, starts, limits) : value;
}

static Value padDim(NodeImporter &node, Value value, StringRef mode, int64_t dim, int64_t low, int64_t high) {
  if (!value || (low == 0 && high == 0))
    return value;
  RankedTensorType type = NodeImporter::typeOf(value);
  int64_t size = type.getDimSize(dim), needed = mode == "reflect" ? size - 1 : mode == "wrap" ? size : low + high;
  if (size == 0 || std::max(low, high) > needed) {
    (void)node.error("expects no more \"" + mode + "\" padding than dimension " + Twine(dim) + " has elements, got " +
                     Twine(std::max(low, high)) + " for " + Twine(size));
    return {};
  }
  auto edge = [&](int64_t position, int64_t count) {
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = count;
    return node.broadcast(part(node, value, dim, position, position + 1), shape);
  };
  auto mirrored = [&](int64_t start, int64_t limit) {
    return node.emit<dfg::ReverseOp>(part(node, value, dim, start, limit), node.attr("dims", ArrayRef<int64_t>(dim)));
  };
  SmallVector<Value> parts;
  if (low > 0)
    parts.push_back(mode == "edge"      ? edge(0, low)
                    : mode == "reflect" ? mirrored(1, low + 1)
                                        : part(node, value, dim, size - low, size));
  parts.push_back(value);
  if (high > 0)
    parts.push_back(mode == "edge"      ? edge(size - 1, high)
                    : mode == "reflect" ? mirrored(size - 1 - high, size - 1)
                                        : part(node, value, dim, 0, high));
  return node.emit<dfg::ConcatOp>(parts, node.attr("dim", dim));
}

static ImportResults importPad(NodeImporter &node) {
  std::string mode = node.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return node.error("expects \"mode\" to be constant, reflect, edge or wrap, got \"" + mode + "\"");
  FailureOr<Pads> pads = readPads(node);
  if (failed(pads))
    return failure();
  Value value = crop(node, node.input(0), *pads);
  if (!value)
    return failure();
  if (mode != "constant") {
    for (int64_t dim = 0; dim < node.rank(0); ++dim)
      value = padDim(node, value, mode, dim, pads->low[dim], pads->high[dim]);
    return oneResult(value);
  }
  if (node.hasInput(2) && node.type(2).getNumElements() != 1)
    return node.error("expects one element as the value to pad with");
  Value fill = node.hasInput(2) ? node.reshape(node.input(2), {})
                                : node.scalar(node.type(0).getElementType(), node.real("value", 0.0));
  return oneResult(node.emit<dfg::PadOp>({value, fill}, {node.attr("low", pads->low), node.attr("high", pads->high)}));
}

/// Cuts or pads both ends of some dimensions alike; where that cannot be, the end gets one element more than the start.
static ImportResults importCenterCropPad(NodeImporter &node) {
  FailureOr<SmallVector<int64_t>> sizes = node.knownIntegers(1);
  if (failed(sizes))
    return failure();
  int64_t rank = node.rank(0);
  SmallVector<int64_t> axes = node.integers("axes").value_or(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  if (failed(node.axes(axes, rank)))
    return failure();
  if (axes.size() != sizes->size())
    return node.error("expects " + Twine(axes.size()) + " sizes, got " + Twine(sizes->size()));
  Pads pads{SmallVector<int64_t>(rank, 0), SmallVector<int64_t>(rank, 0)};
  for (auto [axis, size] : llvm::zip(axes, *sizes)) {
    if (size < 0 || size > largestPad)
      return node.error("expects sizes that are not negative, got " + Twine(size));
    int64_t dim = axis < 0 ? axis + rank : axis, more = size - node.shape(0)[dim];
    pads.low[dim] = more / 2;
    pads.high[dim] = more - more / 2;
  }
  Value value = crop(node, node.input(0), pads);
  Value zero = node.scalar(node.type(0).getElementType(), 0.0);
  return oneResult(node.emit<dfg::PadOp>({value, zero}, {node.attr("low", pads.low), node.attr("high", pads.high)}));
}

void addPaddingOperators(OperatorTable &table) {
  table.add("Pad", {importPad, 1, 4});
  table.add("CenterCropPad", {importCenterCropPad, 2, 2, Elements::Any, 18});
}

} // namespace cleave
