// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders of dimensions from strides, and back.

#include "passes/codegen/DimensionOrder.h"

#include "passes/codegen/LayoutTypes.h"

#include "runtime/MemoryLayout.h"

#include <numeric>

using namespace mlir;

namespace cleave {

std::optional<runtime::Layout> sameKindOfLayout(plan::LayoutAttr layout, const std::vector<int64_t> &shape) {
  if (layout.getBlocks().size() == 1)
    return runtime::blockedLayout(shape, layout.getDims()[0], layout.getBlocks()[0]);
  if (!layout.getBlocks().empty() || layout.getStrides().size() != shape.size())
    return std::nullopt;
  std::vector<unsigned> order(shape.size());
  std::iota(order.begin(), order.end(), 0u);
  llvm::stable_sort(order, [&](unsigned a, unsigned b) { return layout.getStrides()[a] > layout.getStrides()[b]; });
  return runtime::permutedLayout(shape, order);
}

std::optional<SmallVector<int64_t>> permutationOf(RankedTensorType type) {
  plan::LayoutAttr layout = plan::getLayout(type);
  if (!layout || !layout.getBlocks().empty() || layout.getPadded() != type.getShape())
    return std::nullopt;
  SmallVector<int64_t> order(type.getRank());
  std::iota(order.begin(), order.end(), int64_t(0));
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return layout.getStrides()[a] > layout.getStrides()[b]; });
  int64_t stride = 1;
  for (int64_t dim : llvm::reverse(order)) {
    if (type.getDimSize(dim) != 1 && layout.getStrides()[dim] != stride)
      return std::nullopt;
    stride *= type.getDimSize(dim);
  }
  return order;
}

RankedTensorType permuted(RankedTensorType type, ArrayRef<int64_t> order) {
  SmallVector<int64_t> shape;
  for (int64_t dim : order)
    shape.push_back(type.getDimSize(dim));
  return RankedTensorType::get(shape, type.getElementType());
}

std::optional<SmallVector<int64_t>> orderBehindReshape(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                                       ArrayRef<int64_t> order) {
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0))
    return std::nullopt;
  // Groups of dimensions, as few in each as hold the same elements on both sides; by the first one of `from`.
  struct Group {
    int64_t end = 0, toBegin = 0, toEnd = 0;
  };
  SmallVector<Group> groups(from.size());
  auto fromRank = static_cast<int64_t>(from.size()), toRank = static_cast<int64_t>(to.size());
  int64_t i = 0, j = 0;
  while (i < fromRank && j < toRank) {
    int64_t first = i, toFirst = j, size = from[i++], toSize = to[j++];
    while (size != toSize) {
      if (size < toSize && i < fromRank)
        size *= from[i++];
      else if (toSize < size && j < toRank)
        toSize *= to[j++];
      else
        return std::nullopt;
    }
    // Dimensions of size one go with the last group.
    if (i == fromRank)
      j = toRank;
    if (j == toRank)
      i = fromRank;
    groups[first] = {i, toFirst, j};
  }
  SmallVector<int64_t> behind;
  for (size_t place = 0; place < order.size();) {
    Group group = groups[order[place]];
    // Not the first of its group: the group's dimensions lie apart, or out of order.
    if (group.end == 0)
      return std::nullopt;
    for (int64_t dim = order[place]; dim < group.end; ++dim, ++place)
      if (place == order.size() || order[place] != dim)
        return std::nullopt;
    for (int64_t dim = group.toBegin; dim < group.toEnd; ++dim)
      behind.push_back(dim);
  }
  return behind;
}

RankedTensorType laidType(RankedTensorType type, ArrayRef<int64_t> order) {
  std::vector<unsigned> dims(order.begin(), order.end());
  runtime::TensorType laid = toRuntimeType(plan::withoutLayout(type));
  laid.layout = runtime::permutedLayout(laid.shape, dims);
  return fromRuntimeType(type.getContext(), laid);
}

} // namespace cleave
