// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streams that wait for each other by events.

#include "runtime/drivers/cuda/nccl/NcclGathering.h"

#include <algorithm>

namespace cleave::runtime {

Error NcclGathering::prepare() {
  for (size_t i = 0; i != ends.size(); ++i) {
    auto event = createCudaEvent(context.messages.cuda, context.messages.gpu);
    if (!event)
      return event.error();
    events.push_back(std::move(*event));
  }
  return Error::success();
}

const CudaEnd *NcclGathering::find(uint32_t site) const {
  auto found = std::ranges::find(ends, site, &CudaEnd::site);
  return found == ends.end() ? nullptr : &*found;
}

Error NcclGathering::join() {
  const CudaRuntime &cuda = context.messages.cuda;
  for (size_t i = 1; i != ends.size(); ++i)
    if (Error error = order(ends[i].stream, stream(), events[i]))
      return error;
  return checkCuda(cuda, cuda.cudaSetDevice(context.messages.gpu), "using a GPU");
}

Error NcclGathering::part() {
  for (size_t i = 1; i != ends.size(); ++i)
    if (Error error = order(stream(), ends[i].stream, events.front()))
      return error;
  return Error::success();
}

Error NcclGathering::order(cudaStream_t before, cudaStream_t after, const CudaEvent &event) const {
  const CudaRuntime &cuda = context.messages.cuda;
  if (Error error = checkCuda(cuda, cuda.cudaEventRecord(event.get(), before), "recording an event"))
    return error;
  return checkCuda(cuda, cuda.cudaStreamWaitEvent(after, event.get(), 0), "waiting for an event");
}

} // namespace cleave::runtime
