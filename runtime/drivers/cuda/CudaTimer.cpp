// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Graphs between two events, or between two looks at the clock.

#include "runtime/drivers/cuda/CudaTimer.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace cleave::runtime {

Expected<CudaTimer> CudaTimer::create(const CudaRuntime &cuda, int gpu) {
  CudaTimer timer;
  timer.cuda = &cuda;
  auto queue = createCudaStream(cuda, gpu);
  if (!queue)
    return queue.error();
  timer.queue = std::move(*queue);
  for (CudaEvent *event : {&timer.first, &timer.last}) {
    auto made = createCudaEvent(cuda, gpu, /*timed=*/true);
    if (!made)
      return made.error();
    *event = std::move(*made);
  }
  return timer;
}

Expected<CudaGraphExec> CudaTimer::makeGraph(const CudaWork &work) {
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t instantiated = nullptr;
  if (Error error =
          checkCuda(*cuda, cuda->cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "capturing"))
    return error;
  Error failed = work(stream());
  Error ended = checkCuda(*cuda, cuda->cudaStreamEndCapture(stream(), &captured), "capturing");
  CudaGraph graph(*cuda, captured);
  if (failed)
    return failed;
  if (ended)
    return ended;
  if (Error error = checkCuda(*cuda, cuda->cudaGraphInstantiate(&instantiated, captured, 0), "making a graph"))
    return error;
  return CudaGraphExec(*cuda, instantiated);
}

Expected<double> CudaTimer::ofGraph(const CudaWork &work) {
  auto graph = makeGraph(work);
  if (!graph)
    return graph.error();
  float least = 0;
  for (int round = 0; round != 4; ++round) {
    float milliseconds = 0;
    for (auto [code, what] :
         {std::pair(cuda->cudaEventRecord(first.get(), stream()), "recording an event"),
          std::pair(cuda->cudaGraphLaunch(graph->get(), stream()), "launching a graph"),
          std::pair(cuda->cudaEventRecord(last.get(), stream()), "recording an event"),
          std::pair(cuda->cudaEventSynchronize(last.get()), "waiting for a graph"),
          std::pair(cuda->cudaEventElapsedTime(&milliseconds, first.get(), last.get()), "reading an event")})
      if (Error error = checkCuda(*cuda, code, what))
        return error;
    // The first one warms up.
    if (round != 0)
      least = round == 1 ? milliseconds : std::min(least, milliseconds);
  }
  return static_cast<double>(least) / 1e3;
}

/// A first graph of one call says how many fill the time.
Expected<double> CudaTimer::ofCall(const CudaWork &work, double fill) {
  auto once = ofGraph(work);
  if (!once)
    return once;
  int calls = std::clamp(static_cast<int>(fill / std::max(*once, 1e-7)), 1, 400);
  if (calls == 1)
    return once;
  auto all = ofGraph([&](cudaStream_t on) {
    for (int call = 0; call != calls; ++call)
      if (Error error = work(on))
        return error;
    return Error::success();
  });
  if (!all)
    return all;
  return *all / calls;
}

Expected<double> CudaTimer::ofStep(const CudaWork &work) {
  auto graph = makeGraph(work);
  if (!graph)
    return graph.error();
  std::vector<double> taken(21);
  for (double &seconds : taken) {
    auto begin = std::chrono::steady_clock::now();
    if (Error error = checkCuda(*cuda, cuda->cudaGraphLaunch(graph->get(), stream()), "launching a graph"))
      return error;
    if (Error error = checkCuda(*cuda, cuda->cudaStreamSynchronize(stream()), "waiting for a graph"))
      return error;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::ranges::nth_element(taken, taken.begin() + taken.size() / 2);
  return taken[taken.size() / 2];
}

} // namespace cleave::runtime
