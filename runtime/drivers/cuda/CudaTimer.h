// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What calls take on a GPU: captured in a graph as often as fills a while, which is replayed between two events. So
// steps of plans run, and with the cost of a launch that they pay.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDATIMER_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDATIMER_H

#include "runtime/drivers/cuda/CudaObjects.h"

#include <functional>

namespace cleave::runtime {

/// Puts calls on a stream, of which a graph is made.
using CudaWork = std::function<Error(cudaStream_t)>;

/// Seconds; errors are CUDA's, and those of the work.
class CudaTimer {
public:
  CudaTimer() = default;
  static Expected<CudaTimer> create(const CudaRuntime &cuda, int gpu);

  /// A graph of the work, the least of three replays: what disturbs only adds.
  Expected<double> ofGraph(const CudaWork &work);
  /// The work, repeated in a graph that takes about `fill` seconds.
  Expected<double> ofCall(const CudaWork &work, double fill);
  /// A graph of the work by the host's clock, from its launch to knowing that it is over: the median of 21.
  Expected<double> ofStep(const CudaWork &work);

  cudaStream_t stream() const { return queue.get(); }

private:
  Expected<CudaGraphExec> makeGraph(const CudaWork &work);

  const CudaRuntime *cuda = nullptr;
  CudaStream queue;
  CudaEvent first, last;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDATIMER_H
