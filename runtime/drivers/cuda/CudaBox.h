// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A box of elements as the kernels of Links.cu read it from a GPU's memory. Included by both sides.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDABOX_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDABOX_H

#include <stdint.h>

namespace cleave::runtime {

/// The most dimensions of a box besides its run.
inline constexpr unsigned cudaBoxRank = 4;

/// Threads of a block of those kernels, and how many blocks a processor of a GPU has at a time.
inline constexpr unsigned cudaBoxThreads = 256, cudaBoxBlocks = 8;

/// A StridedCopy with a bounded number of dimensions, the unused ones (outermost) of one index. Offsets and strides are
/// bytes; `runUnits` counts contiguous elements of the size that the kernel is for, `units` those of all runs.
struct CudaBox {
  uint64_t source, target;
  uint64_t units, runUnits;
  uint64_t counts[cudaBoxRank], sourceStrides[cudaBoxRank], targetStrides[cudaBoxRank];
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDABOX_H
