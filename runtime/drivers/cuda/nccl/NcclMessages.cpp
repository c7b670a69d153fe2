// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packs by the same kernels that copy boxes within a GPU.

#include "runtime/drivers/cuda/nccl/NcclMessages.h"

#include <algorithm>

namespace cleave::runtime {

void NcclMessage::add(const std::byte *address, const StridedCopy &box) {
  CudaBoxUse use;
  use.copy = box;
  bool isSent = side == Side::Sent;
  (isSent ? use.source : use.target) = reinterpret_cast<uint64_t>(address);
  // The message's side has the runs of the box one behind the other.
  (isSent ? use.copy.targetOffset : use.copy.sourceOffset) = size;
  uint64_t stride = box.runBytes;
  for (size_t d = use.copy.dims.size(); d-- != 0;) {
    StridedCopy::Dim &dim = use.copy.dims[d];
    (isSent ? dim.targetStride : dim.sourceStride) = stride;
    stride *= dim.count;
  }
  size += stride;
  use.copy.simplify();
  boxes.push_back(std::move(use));
}

std::byte *NcclMessage::inPlace() const {
  bool isSent = side == Side::Sent;
  uint64_t next = 0, filled = 0;
  for (const CudaBoxUse &use : boxes) {
    uint64_t at = isSent ? use.source + use.copy.sourceOffset : use.target + use.copy.targetOffset;
    if (!use.copy.dims.empty() || (filled != 0 && at != next))
      return nullptr;
    next = at + use.copy.runBytes;
    filled += use.copy.runBytes;
  }
  return filled == size ? reinterpret_cast<std::byte *>(next - size) : nullptr;
}

Error NcclMessage::prepare(NcclContext &context, uint64_t capacity) {
  bool isSent = side == Side::Sent;
  if (std::byte *place = inPlace(); place && capacity <= size) {
    begin = place;
    return Error::success();
  }
  auto made = allocateCudaMemory(context.cuda, context.gpu, std::max(size, capacity));
  if (!made)
    return made.error();
  memory = std::move(*made);
  begin = static_cast<std::byte *>(memory.get());
  for (CudaBoxUse &use : boxes)
    (isSent ? use.target : use.source) = reinterpret_cast<uint64_t>(begin);
  auto copy = CudaBoxLaunch::copy(context.cuda, context.kernels, context.gpu, boxes);
  if (!copy)
    return copy.error();
  launch = std::move(*copy);
  return Error::success();
}

Error NcclMessage::enqueue(cudaStream_t stream) { return launch ? launch->enqueue(stream) : Error::success(); }

} // namespace cleave::runtime
