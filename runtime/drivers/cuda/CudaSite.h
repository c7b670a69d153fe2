// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A site of a cuda device as its commands see it: a GPU, streams, and kernels.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDASITE_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDASITE_H

#include "runtime/Driver.h"
#include "runtime/Trace.h"
#include "runtime/drivers/cuda/CudaExecutable.h"

namespace cleave::runtime {

/// What the queues of a site share.
struct CudaSite {
  /// A queue's stream, and what its last step ended with; none before.
  struct Stream {
    CudaStream stream;
    cudaEvent_t lastEnd = nullptr;
    Trace::Track *track = nullptr;
  };

  DriverContext *shared = nullptr;
  /// Which of the shared context's sites it is.
  uint32_t index = 0;
  int gpu = 0;
  /// What the device's buffers are in. It is here, and not the device's, because graphs of the driver use it.
  CudaMemory arena;
  PinnedMemory hostMemory;
  std::unique_ptr<CudaExecutable> executable;
  std::vector<Stream> streams; ///< by queue

  const PlanDevice &device() const { return shared->plan->devices[shared->sites[index].device]; }
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDASITE_H
