// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Boxes of buffers as messages: packed into memory of their own where they are not one run.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLMESSAGES_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLMESSAGES_H

#include "runtime/drivers/cuda/CudaBoxes.h"

#include <optional>

namespace cleave::runtime {

/// What a message is packed or unpacked with.
struct NcclContext {
  const CudaRuntime &cuda;
  CudaLinkKernels kernels;
  int gpu = 0;
};

/// Boxes of which one side, one after the other, is the message.
class NcclMessage {
public:
  enum class Side { Sent, Received };

  explicit NcclMessage(Side side) : side(side) {}

  /// Adds a box of the buffer at `address`, by the sides of `box`: what is sent lies at its source, what is received at
  /// its target.
  void add(const std::byte *address, const StridedCopy &box);
  /// Leaves bytes out that mean nothing.
  void skip(uint64_t bytes) { size += bytes; }
  uint64_t bytes() const { return size; }

  /// Makes the memory, of at least `capacity` bytes, and the launch, unless the message is one run of a buffer and has
  /// that capacity. Before the next ones. Status::Infeasible when the GPU has not so much memory.
  Error prepare(NcclContext &context, uint64_t capacity = 0);
  /// Where NCCL finds the bytes, or puts them.
  std::byte *data() const { return begin; }
  /// Packs what is sent, or unpacks what was received.
  Error enqueue(cudaStream_t stream);

private:
  /// Where the message lies in a buffer as it is; null if it has to be put together.
  std::byte *inPlace() const;

  const Side side;
  uint64_t size = 0;
  std::vector<CudaBoxUse> boxes;
  CudaMemory memory;
  std::byte *begin = nullptr;
  std::optional<CudaBoxLaunch> launch;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_NCCL_NCCLMESSAGES_H
