// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streams and events of the simulated CUDA.

#include "Simulation.h"

#include <algorithm>
#include <chrono>

namespace cleave::simulated {

static cudaError_t createStream(cudaStream_t *handle, unsigned flags) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  if (flags != cudaStreamNonBlocking)
    return simulation.misuse("a stream that waits for the default stream");
  auto stream = std::make_unique<Stream>();
  stream->gpu = currentGpu();
  *handle = reinterpret_cast<cudaStream_t>(stream.get());
  simulation.streams[stream.get()] = std::move(stream);
  return cudaSuccess;
}

/// Its work goes on.
static cudaError_t destroyStream(cudaStream_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Stream *stream = simulation.find(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  if (stream->capture)
    simulation.misuse("a stream given back while it is captured");
  simulation.streams.erase(stream);
  return simulation.begin();
}

static cudaError_t synchronizeStream(cudaStream_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.beginUnsafe("cudaStreamSynchronize"))
    return code;
  Stream *stream = simulation.find(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  if (stream->capture)
    return simulation.misuse("waiting for a stream that is captured", cudaErrorStreamCaptureUnsupported);
  return simulation.await(stream->last);
}

static cudaError_t queryStream(cudaStream_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.beginUnsafe("cudaStreamQuery"))
    return code;
  Stream *stream = simulation.find(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  return simulation.poll(stream->last) ? simulation.begin() : simulation.fail(cudaErrorNotReady);
}

static cudaError_t createEvent(cudaEvent_t *handle, unsigned flags) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  auto event = std::make_unique<Event>();
  event->gpu = currentGpu();
  event->isTimed = !(flags & cudaEventDisableTiming);
  *handle = reinterpret_cast<cudaEvent_t>(event.get());
  simulation.events[event.get()] = std::move(event);
  return cudaSuccess;
}

static cudaError_t destroyEvent(cudaEvent_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Event *event = simulation.find(handle);
  if (!event)
    return cudaErrorInvalidResourceHandle;
  simulation.events.erase(event);
  return simulation.begin();
}

static cudaError_t recordEvent(cudaEvent_t eventHandle, cudaStream_t streamHandle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Stream *stream = simulation.find(streamHandle);
  Event *event = simulation.find(eventHandle);
  if (!stream || !event)
    return cudaErrorInvalidResourceHandle;
  if (stream->gpu != event->gpu)
    return simulation.misuse("an event recorded on another GPU", cudaErrorInvalidResourceHandle);
  event->capture = stream->capture;
  event->captured = stream->captured;
  event->op = stream->capture ? nullptr : simulation.put(*stream, Task());
  return cudaSuccess;
}

/// A stream that waits for what is captured is captured from there on.
static cudaError_t waitCaptured(Simulation &simulation, Stream &stream, const Event &event) {
  if (!stream.capture) {
    if (!event.capture->streams.empty()) {
      stream.capture = event.capture;
      stream.captured = event.captured;
      event.capture->streams.insert(&stream);
      return cudaSuccess;
    }
    return simulation.misuse("waiting for an event of a graph outside of it", cudaErrorStreamCaptureIsolation);
  }
  if (stream.capture != event.capture)
    return simulation.misuse("waiting for an event of another graph", cudaErrorStreamCaptureMerge);
  for (size_t node : event.captured)
    if (std::ranges::find(stream.captured, node) == stream.captured.end())
      stream.captured.push_back(node);
  return cudaSuccess;
}

static cudaError_t waitEvent(cudaStream_t streamHandle, cudaEvent_t eventHandle, unsigned) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Stream *stream = simulation.find(streamHandle);
  Event *event = simulation.find(eventHandle);
  if (!stream || !event)
    return cudaErrorInvalidResourceHandle;
  if (event->capture)
    return waitCaptured(simulation, *stream, *event);
  if (stream->capture) {
    stream->capture->isBroken = true;
    return simulation.misuse("waiting in a graph for an event outside of it", cudaErrorStreamCaptureIsolation);
  }
  if (!event->op)
    return cudaSuccess; // nothing to wait for, as CUDA has it
  stream->last = simulation.put(stream->gpu, stream->priority, {}, {stream->last, event->op});
  simulation.dawdle();
  return cudaSuccess;
}

static cudaError_t synchronizeEvent(cudaEvent_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.beginUnsafe("cudaEventSynchronize"))
    return code;
  Event *event = simulation.find(handle);
  if (!event)
    return cudaErrorInvalidResourceHandle;
  if (event->capture)
    return simulation.misuse("waiting for an event of a graph", cudaErrorCapturedEvent);
  cudaError_t code = simulation.await(event->op);
  if (int late = simulation.options.lateMilliseconds; late != 0 && simulation.eventWaits++ % 2 == 0) {
    auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(late));
    simulation.pass(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return code;
}

static cudaError_t queryEvent(cudaEvent_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.beginUnsafe("cudaEventQuery"))
    return code;
  Event *event = simulation.find(handle);
  if (!event)
    return cudaErrorInvalidResourceHandle;
  if (event->capture)
    return simulation.misuse("asking for an event of a graph", cudaErrorCapturedEvent);
  return simulation.poll(event->op) ? simulation.begin() : simulation.fail(cudaErrorNotReady);
}

static cudaError_t elapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Event *first = simulation.find(from), *last = simulation.find(to);
  if (!first || !last)
    return cudaErrorInvalidResourceHandle;
  if (!first->isTimed || !last->isTimed || !first->op || !last->op || first->gpu != last->gpu)
    return simulation.misuse("the time between events that have none", cudaErrorInvalidResourceHandle);
  if (!first->op->isDone || !last->op->isDone)
    return cudaErrorNotReady;
  *milliseconds = static_cast<float>((last->op->end - first->op->end) * 1e3);
  return cudaSuccess;
}

static cudaError_t synchronizeDevice() {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.beginUnsafe("cudaDeviceSynchronize"))
    return code;
  for (auto &[pointer, stream] : simulation.streams)
    if (stream->capture && stream->gpu == currentGpu()) {
      stream->capture->isBroken = true;
      return simulation.misuse("waiting for a GPU while a stream of it is captured", cudaErrorStreamCaptureUnsupported);
    }
  return simulation.awaitAll();
}

static cudaError_t launchHostFunction(cudaStream_t handle, cudaHostFn_t function, void *data) {
  enqueue(handle, [function, data] { function(data); });
  return Simulation::get().begin();
}

void fillStreams(runtime::CudaRuntime &table) {
  table.cudaStreamCreateWithFlags = createStream;
  table.cudaStreamDestroy = destroyStream;
  table.cudaStreamSynchronize = synchronizeStream;
  table.cudaStreamQuery = queryStream;
  table.cudaStreamWaitEvent = waitEvent;
  table.cudaEventCreateWithFlags = createEvent;
  table.cudaEventDestroy = destroyEvent;
  table.cudaEventRecord = recordEvent;
  table.cudaEventSynchronize = synchronizeEvent;
  table.cudaEventQuery = queryEvent;
  table.cudaEventElapsedTime = elapsedTime;
  table.cudaDeviceSynchronize = synchronizeDevice;
  table.cudaLaunchHostFunc = launchHostFunction;
}

} // namespace cleave::simulated
