// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that move elements: transposes, joins, cuts, repetitions and look-ups.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include <limits>

using namespace mlir;

namespace cleave {

static ImportResults importTranspose(NodeImporter &node) {
  int64_t rank = node.rank(0);
  SmallVector<int64_t> reversed = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, rank)));
  SmallVector<int64_t> given = node.integers("perm").value_or(reversed);
  FailureOr<SmallVector<int64_t>> sorted = node.axes(given, rank);
  if (failed(sorted))
    return failure();
  if (static_cast<int64_t>(given.size()) != rank)
    return node.error("expects " + Twine(rank) + " dimensions in \"perm\", got " + Twine(given.size()));
  for (int64_t &dim : given)
    dim = dim < 0 ? dim + rank : dim;
  return oneResult(node.transpose(node.input(0), given));
}

static ImportResults importConcat(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 1), node.rank(0));
  if (failed(axis))
    return failure();
  SmallVector<Value> inputs;
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    inputs.push_back(node.input(i));
  node.repeatForSamples(inputs, *axis);
  return oneResult(node.emit<dfg::ConcatOp>(inputs, node.attr("dim", *axis)));
}

/// Elements [start, limit) of one dimension.
static Value cut(NodeImporter &node, Value value, int64_t dim, int64_t start, int64_t limit) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(value).getShape();
  SmallVector<int64_t> starts(shape.size(), 0), limits(shape), strides(shape.size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  return node.emit<dfg::SliceOp>(
      value, {node.attr("starts", starts), node.attr("limits", limits), node.attr("strides", strides)});
}

static ImportResults importSplit(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(0));
  if (failed(axis))
    return failure();
  auto sizes = node.attributeOrInput("split", 1);
  if (failed(sizes))
    return failure();
  int64_t total = node.shape(0)[*axis];
  if (!*sizes) {
    int64_t parts = node.integer("num_outputs", node.getProto().output_size());
    if (parts < 1 || parts != node.getProto().output_size())
      return node.error("expects \"num_outputs\" to be the number of outputs, got " + Twine(parts));
    int64_t part = (total + parts - 1) / parts;
    sizes->emplace();
    for (int64_t i = 0, rest = total; i < parts; ++i, rest -= part)
      (*sizes)->push_back(std::clamp<int64_t>(rest, 0, part));
  }
  if (static_cast<int>((*sizes)->size()) < node.getProto().output_size())
    return node.error("expects a size for each output, got " + Twine((*sizes)->size()));
  SmallVector<NodeResult, 1> results;
  int64_t start = 0;
  for (int64_t size : **sizes) {
    if (size < 0 || size > total - start)
      return node.error("expects sizes that add up to " + Twine(total));
    results.push_back(cut(node, node.input(0), *axis, start, start + size));
    start += size;
  }
  if (start != total)
    return node.error("expects sizes that add up to " + Twine(total) + ", got " + Twine(start));
  return results;
}

static ImportResults importSlice(NodeImporter &node) {
  auto starts = node.attributeOrInput("starts", 1), ends = node.attributeOrInput("ends", 2),
       axes = node.attributeOrInput("axes", 3), steps = node.attributeOrInput("steps", 4);
  if (failed(starts) || failed(ends) || failed(axes) || failed(steps))
    return failure();
  if (!*starts || !*ends)
    return node.error("expects starts and ends");
  size_t count = (*starts)->size();
  SmallVector<int64_t> dims = *axes ? **axes : llvm::to_vector(llvm::seq<int64_t>(0, count));
  SmallVector<int64_t> strides = *steps ? **steps : SmallVector<int64_t>(count, 1);
  if ((*ends)->size() != count || dims.size() != count || strides.size() != count)
    return node.error("expects as many ends, axes and steps as starts (" + Twine(count) + ")");
  if (failed(node.axes(dims, node.rank(0))))
    return failure();

  ArrayRef<int64_t> shape = node.shape(0);
  SmallVector<int64_t> low(shape.size(), 0), limit(shape), stride(shape.size(), 1), reversed;
  for (size_t i = 0; i < count; ++i) {
    int64_t dim = dims[i] < 0 ? dims[i] + node.rank(0) : dims[i], size = shape[dim], step = strides[i];
    if (step == 0 || step == std::numeric_limits<int64_t>::min())
      return node.error("expects steps other than 0");
    auto place = [&](int64_t position, int64_t lowest, int64_t highest) {
      return std::clamp<int64_t>(position < 0 ? position + size : position, lowest, highest);
    };
    int64_t start = 0, end = 0;
    if (step > 0) {
      start = place((**starts)[i], 0, size);
      end = place((**ends)[i], 0, size);
    } else {
      // Backwards: the same counted from the other end. A start before the first element is the first element.
      reversed.push_back(dim);
      start = size - 1 - place((**starts)[i], size == 0 ? -1 : 0, size - 1);
      end = size - 1 - place((**ends)[i], -1, size - 1);
    }
    low[dim] = start;
    limit[dim] = std::max(start, end);
    stride[dim] = std::min(step < 0 ? -step : step, std::max<int64_t>(size, 1));
  }
  Value value = node.input(0);
  if (!reversed.empty())
    value = node.emit<dfg::ReverseOp>(value, node.attr("dims", reversed));
  return oneResult(node.emit<dfg::SliceOp>(
      value, {node.attr("starts", low), node.attr("limits", limit), node.attr("strides", stride)}));
}

static ImportResults importGather(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(0));
  if (failed(axis))
    return failure();
  return oneResult(node.emit<dfg::GatherOp>({node.input(0), node.input(1)}, node.attr("dim", *axis)));
}

static ImportResults importExpand(NodeImporter &node) {
  FailureOr<SmallVector<int64_t>> shape = node.knownIntegers(1);
  if (failed(shape))
    return failure();
  auto joined = dfg::broadcastShapes(node.shape(0), *shape);
  if (llvm::any_of(*shape, [](int64_t size) { return size < 0; }) || failed(joined))
    return node.error("expects a shape with which its input broadcasts");
  return oneResult(node.broadcast(node.input(0), *joined));
}

/// Repeated dimensions are split in two, of which the first is broadcast.
static ImportResults importTile(NodeImporter &node) {
  FailureOr<SmallVector<int64_t>> repeats = node.knownIntegers(1);
  if (failed(repeats))
    return failure();
  if (static_cast<int64_t>(repeats->size()) != node.rank(0))
    return node.error("expects one repetition a dimension, got " + Twine(repeats->size()));
  SmallVector<int64_t> apart, repeated, result;
  for (auto [size, times] : llvm::zip(node.shape(0), *repeats)) {
    int64_t whole = 0;
    if (times < 0 || __builtin_mul_overflow(size, times, &whole))
      return node.error("expects repetitions from 0 on, got " + Twine(times));
    if (times != 1) {
      apart.push_back(1);
      repeated.push_back(times);
    }
    apart.push_back(size);
    repeated.push_back(size);
    result.push_back(whole);
  }
  return oneResult(node.reshape(node.broadcast(node.reshape(node.input(0), apart), repeated), result));
}

/// The triangle of each matrix above (or below) a diagonal; elsewhere zero.
static ImportResults importTrilu(NodeImporter &node) {
  if (node.rank(0) < 2)
    return node.error("expects matrices");
  FailureOr<double> diagonal = node.hasInput(1) ? node.knownNumber(1) : FailureOr<double>(0.0);
  if (failed(diagonal))
    return failure();
  Type index = node.getBuilder().getI64Type();
  ArrayRef<int64_t> shape = node.shape(0);
  auto matrix = RankedTensorType::get(shape.take_back(2), index);
  Value row = node.emitAs<dfg::IotaOp>(matrix, {}, node.attr("dim", int64_t(0)));
  Value column = node.emitAs<dfg::IotaOp>(matrix, {}, node.attr("dim", int64_t(1)));
  bool upper = node.integer("upper", 1);
  auto comparison = dfg::ComparisonAttr::get(node.getContext(),
                                             upper ? dfg::Comparison::GreaterOrEqual : dfg::Comparison::LessOrEqual);
  Value inside = node.emit<dfg::CompareOp>({node.emit<dfg::SubOp>({column, row}), node.scalar(index, *diagonal)},
                                           node.getBuilder().getNamedAttr("comparison", comparison));
  Value zero = node.scalar(node.type(0).getElementType(), 0.0);
  return oneResult(node.emit<dfg::SelectOp>({inside, node.input(0), zero}));
}

void addMovementOperators(OperatorTable &table) {
  constexpr unsigned any = OperatorTable::anyNumber;
  table.add("Transpose", {importTranspose});
  table.add("Concat", {importConcat, 1, any});
  table.add("Split", {importSplit, 1, 2});
  table.add("Slice", {importSlice, 1, 5});
  table.add("Gather", {importGather, 2, 2});
  table.add("Expand", {importExpand, 2, 2, Elements::Any, 8});
  table.add("Tile", {importTile, 2, 2});
  table.add("Trilu", {importTrilu, 1, 2, Elements::Any, 14});
  table.add("com.microsoft.Trilu", {importTrilu, 1, 2, Elements::Any, 1});
}

} // namespace cleave
