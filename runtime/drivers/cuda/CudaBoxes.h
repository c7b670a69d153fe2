// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Boxes of bytes on GPUs: lists of them that kernels work on, made once and used in every step.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDABOXES_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDABOXES_H

#include "runtime/Plan.h"
#include "runtime/StridedCopy.h"
#include "runtime/drivers/cuda/CudaBox.h"
#include "runtime/drivers/cuda/CudaExecutable.h"

#include <map>

namespace cleave::runtime {

/// The kernels of Links.cu, for all GPUs, and what brings them their lists. Used by one thread at a time.
class CudaLinkKernels {
public:
  explicit CudaLinkKernels(const CudaRuntime &cuda) : cuda(cuda), upload(cuda) {}
  /// Loads them at the first call, for all of the process. The GPU is current.
  Expected<cudaKernel_t> find(const std::string &symbol, int gpu);
  /// Copies the bytes to the GPU; they are there afterwards. Nothing else that is on the GPU is waited for.
  Error place(std::span<const std::byte> bytes, void *target, int gpu);

private:
  const CudaRuntime &cuda;
  std::shared_ptr<const CudaModule> module;
  std::map<std::pair<int, std::string>, cudaKernel_t> found; ///< by GPU
  CudaUpload upload;
  std::map<int, CudaStream> streams; ///< by GPU
};

/// A box of a copy or combination: from offsets of `copy` behind `source` to those behind `target`, which are
/// addresses, or 0 where a kernel adds several.
struct CudaBoxUse {
  uint64_t source = 0, target = 0;
  StridedCopy copy;
};

/// A launch of one of the kernels on a list of boxes, which lies in the GPU's memory, or several one after the other.
class CudaBoxLaunch {
public:
  /// Copies the boxes, which lie in memory that the GPU reaches.
  static Expected<CudaBoxLaunch> copy(const CudaRuntime &cuda, CudaLinkKernels &kernels, int gpu,
                                      std::span<const CudaBoxUse> boxes);
  /// Fills the target's side of the boxes with `element`.
  static Expected<CudaBoxLaunch> fill(const CudaRuntime &cuda, CudaLinkKernels &kernels, int gpu,
                                      std::span<const CudaBoxUse> boxes, std::span<const std::byte> element);
  /// Writes the combination of all sources to all targets, which are base addresses.
  static Expected<CudaBoxLaunch> combine(const CudaRuntime &cuda, CudaLinkKernels &kernels, int gpu,
                                         std::span<const CudaBoxUse> boxes, ElementType element, Combiner combiner,
                                         std::span<const uint64_t> sources, std::span<const uint64_t> targets);

  /// Needs the GPU to be current. The stream is one of the GPU.
  Error enqueue(cudaStream_t stream);

private:
  CudaBoxLaunch() = default;
  static Expected<CudaBoxLaunch> make(const CudaRuntime &cuda, CudaLinkKernels &kernels, int gpu,
                                      const std::string &symbol, std::span<const CudaBoxUse> boxes, unsigned width,
                                      std::span<const uint64_t> addresses);

  const CudaRuntime *cuda = nullptr;
  cudaKernel_t kernel = nullptr;
  CudaMemory table; ///< boxes, then addresses
  std::vector<uint64_t> arguments;
  uint32_t blocks = 1;
  std::vector<CudaBoxLaunch> others;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDABOXES_H
