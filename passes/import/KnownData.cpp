// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators whose result's shape depends on the data: computed at import, where the data is known.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"

#include "dialects/dfg/EvaluateLoops.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace cleave {

/// One flag an element: whether it is other than zero.
static FailureOr<SmallVector<bool>> isNonZero(NodeImporter &node, const HostTensor &tensor) {
  HostTensor wide = dfg::widen(tensor);
  SmallVector<bool> flags;
  bool done = dfg::withElementType(wide.getElementType(), [&](auto zero) {
    using T = decltype(zero);
    for (T value : wide.as<T>())
      flags.push_back(value != zero);
    return true;
  });
  if (!done)
    return FailureOr<SmallVector<bool>>(node.unsupported("elements of this type are not known"));
  return flags;
}

static HostTensor integerTensor(NodeImporter &node, ArrayRef<int64_t> values, ArrayRef<int64_t> shape) {
  char *writable = nullptr;
  HostTensor tensor = HostTensor::allocate(RankedTensorType::get(shape, node.getBuilder().getI64Type()), writable);
  std::copy(values.begin(), values.end(), reinterpret_cast<int64_t *>(writable));
  return tensor;
}

/// The slices, or without an axis the elements, whose condition holds.
static ImportResults importCompress(NodeImporter &node) {
  FailureOr<HostTensor> condition = node.known(1);
  if (failed(condition))
    return failure();
  if (!condition->getElementType().isInteger(1) || condition->getType().getRank() != 1)
    return node.error("expects a list of truth values as its condition");
  int64_t axis = 0;
  Value input = node.input(0);
  if (node.hasAttribute("axis")) {
    FailureOr<int64_t> given = node.axis(node.integer("axis", 0), node.rank(0));
    if (failed(given))
      return failure();
    axis = *given;
  } else {
    input = node.reshape(input, node.type(0).getNumElements());
  }
  if (!input)
    return failure();
  int64_t size = NodeImporter::typeOf(input).getDimSize(axis);
  SmallVector<int64_t> kept;
  for (auto [position, flag] : llvm::enumerate(condition->as<bool>()))
    if (flag && static_cast<int64_t>(position) < size)
      kept.push_back(position);
  auto count = static_cast<int64_t>(kept.size());
  return oneResult(node.emit<dfg::GatherOp>({input, integerConstant(node, kept, count)}, node.attr("dim", axis)));
}

/// The positions of all elements other than zero, one row a dimension.
static ImportResults importNonZero(NodeImporter &node) {
  FailureOr<HostTensor> tensor = node.known(0);
  if (failed(tensor))
    return failure();
  FailureOr<SmallVector<bool>> flags = isNonZero(node, *tensor);
  if (failed(flags))
    return failure();
  SmallVector<int64_t> found;
  for (auto [position, flag] : llvm::enumerate(*flags))
    if (flag)
      found.push_back(position);
  SmallVector<int64_t> rows;
  for (int64_t step : dfg::denseStrides(node.shape(0)))
    for (int64_t position : found)
      rows.push_back(position / step % node.shape(0)[rows.size() / found.size()]);
  HostTensor result = integerTensor(node, rows, {node.rank(0), static_cast<int64_t>(found.size())});
  return SmallVector<NodeResult, 1>{NodeResult(result)};
}

//===-- Unique ------------------------------------------------------------------------------------------------===//

namespace {
/// Slices of a tensor along an axis, as ranks of them: equal slices have equal keys.
struct Distinct {
  /// For each distinct slice its first position and how often it occurs; for each slice which of the distinct it is.
  SmallVector<int64_t> first, counts, inverse;
};
} // namespace

/// Finds distinct slices, sorted by their elements or in the order of their first positions.
template <typename T>
static Distinct findDistinct(const HostTensor &tensor, int64_t outer, int64_t size, int64_t inner, bool sorted) {
  ArrayRef<T> elements = tensor.as<T>();
  auto element = [&](int64_t slice, int64_t i) { return elements[(i / inner * size + slice) * inner + i % inner]; };
  auto isLess = [&](int64_t a, int64_t b) {
    for (int64_t i = 0; i < outer * inner; ++i)
      if (element(a, i) != element(b, i))
        return element(a, i) < element(b, i);
    return false;
  };
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, size));
  llvm::stable_sort(order, isLess);
  Distinct distinct;
  SmallVector<int64_t> groupOf(size, 0);
  for (auto [rank, slice] : llvm::enumerate(order)) {
    if (rank == 0 || isLess(order[rank - 1], slice)) {
      distinct.first.push_back(slice);
      distinct.counts.push_back(0);
    }
    ++distinct.counts.back();
    groupOf[slice] = static_cast<int64_t>(distinct.first.size()) - 1;
  }
  distinct.inverse = groupOf;
  if (sorted)
    return distinct;
  SmallVector<int64_t> groups = llvm::to_vector(llvm::seq<int64_t>(0, distinct.first.size()));
  llvm::sort(groups, [&](int64_t a, int64_t b) { return distinct.first[a] < distinct.first[b]; });
  Distinct inOrder;
  SmallVector<int64_t> placeOf(groups.size());
  for (auto [place, group] : llvm::enumerate(groups)) {
    inOrder.first.push_back(distinct.first[group]);
    inOrder.counts.push_back(distinct.counts[group]);
    placeOf[group] = static_cast<int64_t>(place);
  }
  for (int64_t group : groupOf)
    inOrder.inverse.push_back(placeOf[group]);
  return inOrder;
}

static ImportResults importUnique(NodeImporter &node) {
  FailureOr<HostTensor> tensor = node.known(0);
  if (failed(tensor))
    return failure();
  ArrayRef<int64_t> shape = node.shape(0);
  int64_t outer = 1, size = node.type(0).getNumElements(), inner = 1, axis = 0;
  Value input = node.input(0);
  if (node.hasAttribute("axis")) {
    FailureOr<int64_t> given = node.axis(node.integer("axis", 0), node.rank(0));
    if (failed(given))
      return failure();
    axis = *given;
    outer = productOf(shape.take_front(axis));
    size = shape[axis];
    inner = productOf(shape.drop_front(axis + 1));
  } else {
    input = node.reshape(input, size);
  }
  HostTensor wide = dfg::widen(*tensor);
  Distinct distinct;
  bool sorted = node.integer("sorted", 1);
  bool done = dfg::withElementType(wide.getElementType(), [&](auto zero) {
    distinct = findDistinct<decltype(zero)>(wide, outer, size, inner, sorted);
    return true;
  });
  if (!done)
    return node.unsupported("elements of this type are not known");
  auto count = static_cast<int64_t>(distinct.first.size());
  Value kept = node.emit<dfg::GatherOp>({input, integerConstant(node, distinct.first, count)}, node.attr("dim", axis));
  return SmallVector<NodeResult, 1>{NodeResult(kept), NodeResult(integerTensor(node, distinct.first, count)),
                                    NodeResult(integerTensor(node, distinct.inverse, size)),
                                    NodeResult(integerTensor(node, distinct.counts, count))};
}

void addKnownDataOperators(OperatorTable &table) {
  table.add("Compress", {importCompress, 2, 2, Elements::Any, 9});
  table.add("NonZero", {importNonZero, 1, 1, Elements::Any, 9});
  table.add("Unique", {importUnique, 1, 1, Elements::Number, 11});
}

} // namespace cleave
