// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that read, write, find and order elements by positions.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"

using namespace mlir;

namespace cleave {

/// Elements of which look-ups and updates may be many are addressed by one number.
static Value inI64(NodeImporter &node, Value positions) { return node.cast(positions, node.getBuilder().getI64Type()); }

//===-- single elements ---------------------------------------------------------------------------------------===//

/// The corner of `value` with the sizes `shape`.
static Value cornerOf(NodeImporter &node, Value value, ArrayRef<int64_t> shape) {
  for (auto [dim, size] : llvm::enumerate(shape))
    value = partOf(node, value, dim, 0, size);
  return value;
}

/// The shape of the part of input 0 that indices of `shape` can reach line by line; an error where they do not fit.
static FailureOr<SmallVector<int64_t>> reachedShape(NodeImporter &node, ArrayRef<int64_t> indices, int64_t axis) {
  SmallVector<int64_t> shape(node.shape(0));
  bool fits = indices.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    if (static_cast<int64_t>(i) == axis)
      continue;
    fits = indices[i] <= shape[i];
    shape[i] = indices[i];
  }
  if (!fits)
    return FailureOr<SmallVector<int64_t>>(
        node.error("expects indices of the input's rank that are no larger in dimensions other than the axis"));
  return shape;
}

static ImportResults importGatherElements(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(0));
  if (failed(axis))
    return failure();
  FailureOr<SmallVector<int64_t>> reached = reachedShape(node, node.shape(1), *axis);
  if (failed(reached))
    return failure();
  return oneResult(node.emit<dfg::GatherElementsOp>({cornerOf(node, node.input(0), *reached), node.input(1)},
                                                    node.attr("dim", *axis)));
}

/// The attribute of a reduction; nothing for "none".
static FailureOr<SmallVector<NamedAttribute>> readReduction(NodeImporter &node) {
  std::string name = node.text("reduction", "none");
  SmallVector<NamedAttribute> attributes;
  if (name == "none")
    return attributes;
  auto kind = llvm::StringSwitch<std::optional<dfg::ReduceKind>>(name)
                  .Case("add", dfg::ReduceKind::Sum)
                  .Case("mul", dfg::ReduceKind::Product)
                  .Case("max", dfg::ReduceKind::Max)
                  .Case("min", dfg::ReduceKind::Min)
                  .Default(std::nullopt);
  if (!kind)
    return FailureOr<SmallVector<NamedAttribute>>(
        node.error("expects \"reduction\" to be none, add, mul, max or min, got \"" + name + "\""));
  attributes.push_back(node.getBuilder().getNamedAttr("reduction", dfg::ReduceKindAttr::get(node.getContext(), *kind)));
  return attributes;
}

static Value scatterElements(NodeImporter &node, Value input, Value indices, Value updates, int64_t dim,
                             SmallVector<NamedAttribute> reduction) {
  reduction.push_back(node.attr("dim", dim));
  return node.emit<dfg::ScatterElementsOp>({input, indices, updates}, reduction);
}

/// Elements that the indices cannot reach are put back around those that they can.
static ImportResults importScatterElements(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(0));
  FailureOr<SmallVector<NamedAttribute>> reduction = readReduction(node);
  if (failed(axis) || failed(reduction))
    return failure();
  FailureOr<SmallVector<int64_t>> reached = reachedShape(node, node.shape(1), *axis);
  if (failed(reached))
    return failure();
  Value input = node.input(0);
  Value result =
      scatterElements(node, cornerOf(node, input, *reached), node.input(1), node.input(2), *axis, *reduction);
  SmallVector<int64_t> sofar(*reached);
  for (int64_t dim = 0; dim < node.rank(0); ++dim) {
    int64_t size = node.shape(0)[dim], done = sofar[dim];
    if (done == size)
      continue;
    sofar[dim] = size;
    Value rest = partOf(node, cornerOf(node, input, sofar), dim, done, size);
    result = node.emit<dfg::ConcatOp>({result, rest}, node.attr("dim", dim));
  }
  return oneResult(result);
}

//===-- tuples of positions -----------------------------------------------------------------------------------===//

namespace {
/// Input 0 as `batch` blocks of `count` slices of `size` elements, and where the tuples of input 1 point among all
/// slices.
struct Slices {
  int64_t batch = 1, count = 1, size = 1;
  /// i64, one a tuple.
  Value positions;
};
} // namespace

/// Each tuple as one number. Numbers outside a dimension move to its nearest element, or with `dropOutside` lead behind
/// the last slice.
static FailureOr<Slices> readTuples(NodeImporter &node, int64_t batchDims, bool dropOutside) {
  if (node.rank(1) < 1 || batchDims < 0 || batchDims >= node.rank(1))
    return FailureOr<Slices>(node.error("expects indices with more dimensions than \"batch_dims\""));
  int64_t length = node.shape(1).back();
  if (batchDims + length > node.rank(0) || node.shape(0).take_front(batchDims) != node.shape(1).take_front(batchDims))
    return FailureOr<Slices>(node.error("expects indices that fit the dimensions of its input"));
  ArrayRef<int64_t> indexed = node.shape(0).slice(batchDims, length);
  Slices slices;
  slices.batch = productOf(node.shape(0).take_front(batchDims));
  slices.count = productOf(indexed);
  slices.size = productOf(node.shape(0).drop_front(batchDims + length));
  SmallVector<int64_t> steps(length, 1), last;
  for (int64_t i = length; i-- > 1;)
    steps[i - 1] = steps[i] * indexed[i];
  for (int64_t size : indexed)
    last.push_back(std::max<int64_t>(size - 1, 0));
  Value tuples = fromStart(node, inI64(node, node.input(1)), integerConstant(node, indexed, length));
  Value zero = node.scalar(node.getBuilder().getI64Type(), 0);
  Value inside = node.emit<dfg::MaxOp>({node.emit<dfg::MinOp>({tuples, integerConstant(node, last, length)}), zero});
  int64_t lastDim = node.rank(1) - 1;
  Value numbers = node.reduce(node.emit<dfg::MulOp>({inside, integerConstant(node, steps, length)}),
                              dfg::ReduceKind::Sum, lastDim, /*keepDims=*/false);
  if (dropOutside) {
    Value isInside = compare(node, inside, dfg::Comparison::Equal, tuples);
    isInside = node.reduce(isInside, dfg::ReduceKind::Min, lastDim, /*keepDims=*/false);
    Value behind = node.scalar(node.getBuilder().getI64Type(), static_cast<double>(slices.count));
    numbers = node.emit<dfg::SelectOp>({isInside, numbers, behind});
  }
  slices.positions = numbers;
  return slices;
}

static ImportResults importGatherNd(NodeImporter &node) {
  int64_t batchDims = node.integer("batch_dims", 0);
  FailureOr<Slices> slices = readTuples(node, batchDims, /*dropOutside=*/false);
  if (failed(slices))
    return failure();
  SmallVector<int64_t> shape(node.shape(1).drop_back());
  llvm::append_range(shape, node.shape(0).drop_front(batchDims + node.shape(1).back()));
  int64_t perBatch = productOf(node.shape(1).drop_back()) / std::max<int64_t>(slices->batch, 1);
  Value positions = node.reshape(slices->positions, {slices->batch, perBatch});
  if (slices->batch != 1) {
    Value starts =
        node.emit<dfg::MulOp>({positionsAlong(node, {slices->batch, 1}, 0), integerConstant(node, slices->count, {})});
    positions = node.emit<dfg::AddOp>({positions, starts});
  }
  Value input = node.reshape(node.input(0), {slices->batch * slices->count, slices->size});
  return oneResult(node.reshape(node.emit<dfg::GatherOp>({input, positions}, node.attr("dim", int64_t(0))), shape));
}

static ImportResults importScatterNd(NodeImporter &node) {
  FailureOr<SmallVector<NamedAttribute>> reduction = readReduction(node);
  FailureOr<Slices> slices = readTuples(node, 0, /*dropOutside=*/true);
  if (failed(slices) || failed(reduction))
    return failure();
  int64_t tuples = productOf(node.shape(1).drop_back());
  if (node.type(2).getNumElements() != tuples * slices->size)
    return node.error("expects one slice of updates a tuple of indices");
  Value input = node.reshape(node.input(0), {slices->count, slices->size});
  Value updates = node.reshape(node.input(2), {tuples, slices->size});
  Value result = scatterElements(node, input, node.reshape(slices->positions, {tuples, 1}), updates, 0, *reduction);
  return oneResult(node.reshape(result, node.shape(0)));
}

//===-- one-hot vectors ---------------------------------------------------------------------------------------===//

static ImportResults importOneHot(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(0) + 1);
  FailureOr<double> depth = node.knownNumber(1);
  if (failed(axis) || failed(depth))
    return failure();
  if (!(*depth >= 0 && *depth < 1e15))
    return node.error("expects a depth of a tensor's size, got " + std::to_string(*depth));
  auto size = static_cast<int64_t>(*depth);
  if (node.type(2).getNumElements() != 2)
    return node.error("expects two values, for cold and for hot");
  SmallVector<int64_t> shape(node.shape(0)), whole(node.shape(0)), along(node.rank(0) + 1, 1);
  shape.insert(shape.begin() + *axis, 1);
  along[*axis] = size;
  Value positions = fromStart(node, inI64(node, node.input(0)), integerConstant(node, size, {}));
  Value isHot =
      compare(node, node.reshape(positions, shape), dfg::Comparison::Equal, positionsAlong(node, along, *axis));
  Value cold = node.reshape(partOf(node, node.input(2), 0, 0, 1), {});
  Value hot = node.reshape(partOf(node, node.input(2), 0, 1, 2), {});
  return oneResult(node.emit<dfg::SelectOp>({isHot, hot, cold}));
}

/// One at the first of the largest elements along the axis. Before operator set 13 the input is seen as a matrix whose
/// columns begin at `axis`.
static ImportResults importHardmax(NodeImporter &node) {
  bool coerced = node.getVersion() < 13;
  FailureOr<int64_t> axis = node.axis(node.integer("axis", coerced ? 1 : -1), node.rank(0));
  if (failed(axis))
    return failure();
  ArrayRef<int64_t> shape = node.shape(0);
  Value input = node.input(0);
  int64_t dim = *axis;
  if (coerced) {
    input = node.reshape(input, {productOf(shape.take_front(dim)), productOf(shape.drop_front(dim))});
    dim = 1;
  }
  if (!input)
    return failure();
  auto kind = dfg::ArgKindAttr::get(node.getContext(), dfg::ArgKind::Max);
  Value largest = node.emit<dfg::ArgReduceOp>(
      input, {node.getBuilder().getNamedAttr("kind", kind), node.attr("dim", dim), node.flag("keep_dims")});
  SmallVector<int64_t> along(NodeImporter::typeOf(input).getRank(), 1);
  along[dim] = NodeImporter::typeOf(input).getDimSize(dim);
  Value isLargest = compare(node, positionsAlong(node, along, dim), dfg::Comparison::Equal, largest);
  return oneResult(node.reshape(node.cast(isLargest, node.type(0).getElementType()), shape));
}

//===-- orders ------------------------------------------------------------------------------------------------===//

static ImportResults importCumSum(NodeImporter &node) {
  FailureOr<double> given = node.knownNumber(1);
  if (failed(given))
    return failure();
  FailureOr<int64_t> axis = node.axis(static_cast<int64_t>(*given), node.rank(0));
  if (failed(axis))
    return failure();
  bool isReversed = node.integer("reverse", 0);
  auto reversed = [&](Value value) {
    return isReversed ? node.emit<dfg::ReverseOp>(value, node.attr("dims", ArrayRef<int64_t>(*axis))) : value;
  };
  SmallVector<NamedAttribute> attributes = {node.attr("dim", *axis)};
  if (node.integer("exclusive", 0))
    attributes.push_back(node.flag("exclusive"));
  return oneResult(reversed(node.emit<dfg::CumulativeSumOp>(reversed(node.input(0)), attributes)));
}

/// The first of all elements in order. Before operator set 10 their number is an attribute.
static ImportResults importTopK(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(0));
  FailureOr<double> count = node.hasInput(1) ? node.knownNumber(1) : FailureOr<double>(node.integer("k", 0));
  if (failed(axis) || failed(count))
    return failure();
  if (*count < 0 || *count > static_cast<double>(node.shape(0)[*axis]))
    return node.error("expects to take at most all " + Twine(node.shape(0)[*axis]) + " elements");
  SmallVector<NamedAttribute> attributes = {node.attr("dim", *axis)};
  if (node.integer("largest", 1))
    attributes.push_back(node.flag("descending"));
  Value order = node.emit<dfg::ArgSortOp>(node.input(0), attributes);
  Value first = partOf(node, order, *axis, 0, static_cast<int64_t>(*count));
  Value values = node.emit<dfg::GatherElementsOp>({node.input(0), first}, node.attr("dim", *axis));
  return SmallVector<NodeResult, 1>{values, first};
}

/// The first elements of each sequence, as many as it is long, in reverse.
static ImportResults importReverseSequence(NodeImporter &node) {
  FailureOr<int64_t> batch = node.axis(node.integer("batch_axis", 1), node.rank(0));
  FailureOr<int64_t> time = node.axis(node.integer("time_axis", 0), node.rank(0));
  if (failed(batch) || failed(time))
    return failure();
  if (*batch == *time || node.type(1).getNumElements() != node.shape(0)[*batch])
    return node.error("expects two axes and a length for each sequence");
  SmallVector<int64_t> perSequence(node.rank(0), 1), along(node.rank(0), 1);
  perSequence[*batch] = node.shape(0)[*batch];
  along[*time] = node.shape(0)[*time];
  Value lengths = node.reshape(inI64(node, node.input(1)), perSequence), positions = positionsAlong(node, along, *time);
  Value one = node.scalar(node.getBuilder().getI64Type(), 1);
  Value mirrored = node.emit<dfg::SubOp>({node.emit<dfg::SubOp>({lengths, one}), positions});
  Value isInside = compare(node, positions, dfg::Comparison::Less, lengths);
  Value source = node.emit<dfg::SelectOp>({isInside, mirrored, positions});
  return oneResult(node.emit<dfg::GatherElementsOp>({node.input(0), source}, node.attr("dim", *time)));
}

//===-- blocks of images --------------------------------------------------------------------------------------===//

namespace {
/// A dimension of an image of which blocks are taken at regular places.
struct BlockDim {
  int64_t image, block, stride, dilation, before, places;
};
} // namespace

/// For each element of a block, and in each of those for each place, where in the image it lies; behind the image's end
/// where it lies outside.
static SmallVector<int64_t> positionsOfBlocks(ArrayRef<BlockDim> dims) {
  SmallVector<int64_t> blocks, places, images;
  for (const BlockDim &dim : dims) {
    blocks.push_back(dim.block);
    places.push_back(dim.places);
    images.push_back(dim.image);
  }
  SmallVector<int64_t> positions;
  for (int64_t element = 0, elements = productOf(blocks); element < elements; ++element)
    for (int64_t place = 0, count = productOf(places); place < count; ++place) {
      int64_t position = 0, step = 1, restOfElement = element, restOfPlace = place;
      bool isInside = true;
      for (const BlockDim &dim : llvm::reverse(dims)) {
        int64_t at = restOfPlace % dim.places * dim.stride - dim.before + restOfElement % dim.block * dim.dilation;
        isInside &= at >= 0 && at < dim.image;
        position += at * step;
        step *= dim.image;
        restOfElement /= dim.block;
        restOfPlace /= dim.places;
      }
      positions.push_back(isInside ? position : productOf(images));
    }
  return positions;
}

/// Adds blocks up to the image that they were taken from.
static ImportResults importCol2Im(NodeImporter &node) {
  FailureOr<SmallVector<int64_t>> image = node.knownIntegers(1), block = node.knownIntegers(2);
  if (failed(image) || failed(block))
    return failure();
  size_t space = image->size();
  SmallVector<int64_t> ones(space, 1), zeros(2 * space, 0);
  SmallVector<int64_t> strides = node.integers("strides").value_or(ones), pads = node.integers("pads").value_or(zeros);
  SmallVector<int64_t> dilations = node.integers("dilations").value_or(ones);
  auto isOneOf = [](ArrayRef<int64_t> list, size_t count, int64_t lowest) {
    return list.size() == count &&
           llvm::all_of(list, [&](int64_t value) { return value >= lowest && value < int64_t(1) << 30; });
  };
  if (space == 0 || node.rank(0) != 3 || !isOneOf(*image, space, 1) || !isOneOf(*block, space, 1) ||
      !isOneOf(strides, space, 1) || !isOneOf(dilations, space, 1) || !isOneOf(pads, 2 * space, 0))
    return node.error("expects blocks, and positive sizes, strides and dilations for each dimension of an image");
  ArrayRef<int64_t> shape = node.shape(0);
  SmallVector<BlockDim> dims;
  int64_t places = 1, elements = 1, size = 1;
  for (size_t i = 0; i < space; ++i) {
    int64_t room = (*image)[i] + pads[i] + pads[space + i] - dilations[i] * ((*block)[i] - 1) - 1;
    dims.push_back({(*image)[i], (*block)[i], strides[i], dilations[i], pads[i], room < 0 ? 0 : room / strides[i] + 1});
    bool tooMany = __builtin_mul_overflow(elements, dims.back().block, &elements) || elements > shape[1];
    tooMany |= __builtin_mul_overflow(places, dims.back().places, &places) || places > shape[2];
    if (tooMany || __builtin_mul_overflow(size, dims.back().image, &size))
      return node.error("expects an element of its input for each element of each block");
  }
  if (shape[2] != places || shape[1] % elements != 0)
    return node.error("expects blocks of " + Twine(elements) + " elements at " + Twine(places) + " places");
  int64_t lines = shape[0] * (shape[1] / elements), count = elements * places;
  Value zero = node.broadcast(node.scalar(node.type(0).getElementType(), 0.0), {lines, size});
  auto sum = dfg::ReduceKindAttr::get(node.getContext(), dfg::ReduceKind::Sum);
  Value added = scatterElements(node, zero, integerConstant(node, positionsOfBlocks(dims), {1, count}),
                                node.reshape(node.input(0), {lines, count}), 1,
                                {node.getBuilder().getNamedAttr("reduction", sum)});
  SmallVector<int64_t> result = {shape[0], shape[1] / elements};
  llvm::append_range(result, *image);
  return oneResult(node.reshape(added, result));
}

void addIndexingOperators(OperatorTable &table) {
  table.add("GatherElements", {importGatherElements, 2, 2, Elements::Any, 11});
  table.add("ScatterElements", {importScatterElements, 3, 3, Elements::Any, 11});
  table.add("Scatter", {importScatterElements, 3, 3, Elements::Any, 9, 10});
  table.add("GatherND", {importGatherNd, 2, 2, Elements::Any, 11});
  table.add("ScatterND", {importScatterNd, 3, 3, Elements::Any, 11});
  table.add("OneHot", {importOneHot, 3, 3, Elements::Number, 9});
  table.add("Hardmax", {importHardmax, 1, 1, Elements::Float});
  table.add("CumSum", {importCumSum, 2, 2, Elements::Number, 11});
  table.add("TopK", {importTopK, 1, 2, Elements::Number});
  table.add("Col2Im", {importCol2Im, 3, 3, Elements::Number, 18});
  table.add("ReverseSequence", {importReverseSequence, 2, 2, Elements::Any, 10});
}

} // namespace cleave
