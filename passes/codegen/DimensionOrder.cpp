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

RankedTensorType laidType(RankedTensorType type, ArrayRef<int64_t> order) {
  std::vector<unsigned> dims(order.begin(), order.end());
  runtime::TensorType laid = toRuntimeType(plan::withoutLayout(type));
  laid.layout = runtime::permutedLayout(laid.shape, dims);
  return fromRuntimeType(type.getContext(), laid);
}

} // namespace cleave
