// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What calls take on a GPU: captured in a graph as often as fills a while, which is replayed between two events. So
// steps of plans run, and with the cost of a launch that they pay.

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_GPUTIMER_H
#define CLEAVE_TOOLS_CLEAVE_RUN_GPUTIMER_H

#include "runtime/drivers/cuda/CudaObjects.h"

#include <functional>

namespace cleave {

/// Puts calls on a stream, of which a graph is made.
using GpuWork = std::function<runtime::Error(cudaStream_t)>;

/// Seconds; errors are CUDA's, and those of the work.
class GpuTimer {
public:
  GpuTimer() = default;
  static runtime::Expected<GpuTimer> create(const runtime::CudaRuntime &cuda, int gpu);

  /// A graph of the work, the least of three replays: what disturbs only adds.
  runtime::Expected<double> ofGraph(const GpuWork &work);
  /// The work, repeated in a graph that takes about `fill` seconds.
  runtime::Expected<double> ofCall(const GpuWork &work, double fill);
  /// A graph of the work by the host's clock, from its launch to knowing that it is over: the median of 21.
  runtime::Expected<double> ofStep(const GpuWork &work);

  cudaStream_t stream() const { return queue.get(); }

private:
  runtime::Expected<runtime::CudaGraphExec> makeGraph(const GpuWork &work);

  const runtime::CudaRuntime *cuda = nullptr;
  runtime::CudaStream queue;
  runtime::CudaEvent first, last;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_GPUTIMER_H
