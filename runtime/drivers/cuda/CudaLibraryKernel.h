// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cuda driver's door to kernel libraries: what a library kernel of a plan becomes on a GPU.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALIBRARYKERNEL_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALIBRARYKERNEL_H

#include "runtime/Plan.h"
#include "runtime/drivers/cuda/CudaApi.h"

namespace cleave::runtime {

/// A library kernel ready to run on one logical device, whose compute queues use it, one call at a time. The CUDA
/// device for which it was loaded is current at every call. Arguments are device addresses of inputs, outputs, then
/// scratch if the kernel has any; the array itself lives only as long as the call.
class CudaLibraryKernel {
public:
  virtual ~CudaLibraryKernel() = default;
  /// Chooses the fastest algorithm by measuring, with the real arguments, whose outputs and scratch may be overwritten.
  /// Called once, before the first enqueue, while the device is idle; synchronizes with the stream.
  virtual Error choose(void *const *arguments, cudaStream_t stream) = 0;
  /// Puts the work on the stream and returns at once. Can be captured in a graph, which may then run more often than
  /// this is called: what it refers to lives as long as the kernel.
  virtual Error enqueue(void *const *arguments, cudaStream_t stream) = 0;
};

/// Loads a kernel for the current CUDA device. Status::Unsupported when this build or machine lacks the library or the
/// library cannot run it as described, Status::Rejected when the description contradicts itself.
Expected<std::unique_ptr<CudaLibraryKernel>> loadCudaLibraryKernel(const Kernel &kernel, const LibraryKernel &library);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALIBRARYKERNEL_H
