// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts a phase's commands on streams, for a step at once or recorded as a graph.

#include "runtime/drivers/cuda/CudaPhase.h"

#include "runtime/ParameterLoad.h"

#include <chrono>
#include <thread>

namespace cleave::runtime {

/// How often links are asked for what has failed. So long a thread asks again and again as CUDA itself does when it
/// waits; later it sleeps in between.
static constexpr std::chrono::milliseconds checkedEvery(1);
static constexpr std::chrono::microseconds napsFor(20);

Error CudaPhase::wait(const List &list, cudaEvent_t event) const {
  return checkCuda(cuda, cuda.cudaStreamWaitEvent(list.stream(), event, 0), "waiting for an event");
}

Error CudaPhase::record(const List &list, cudaEvent_t event) const {
  return checkCuda(cuda, cuda.cudaEventRecord(event, list.stream()), "recording an event");
}

/// A step begins on a site when the steps before have ended in all of its queues: buffers are used again.
Error CudaPhase::begin() {
  for (const List &list : lists)
    for (uint32_t queue = 0; queue != list.site->streams.size(); ++queue)
      if (cudaEvent_t lastEnd = list.site->streams[queue].lastEnd; lastEnd && queue != list.queue)
        if (Error error = wait(list, lastEnd))
          return error;
  return Error::success();
}

Error CudaPhase::end(CudaSlot &slot) {
  for (size_t i = 0; i != lists.size(); ++i) {
    if (Error error = record(lists[i], slot.ends[i].get()))
      return error;
    lists[i].site->streams[lists[i].queue].lastEnd = slot.ends[i].get();
  }
  return Error::success();
}

Error CudaPhase::enqueue(CudaSlot &slot, uint64_t step, CudaMode mode, CudaUpload &upload,
                         RunningInstruction &running) {
  if (Error error = begin())
    return error;
  links->beginStep(/*isCaptured=*/false);
  Error error;
  for (Turn &turn : turns)
    if (!error)
      error = enqueue(turn, slot, step, mode, upload, &running);
  running.set(nullptr);
  return error ? error : end(slot);
}

/// `running`: null while a graph is recorded, which runs nothing.
Error CudaPhase::enqueue(Turn &turn, CudaSlot &slot, uint64_t step, CudaMode mode, CudaUpload &upload,
                         RunningInstruction *running) {
  auto note = [&](const CudaPlace &place) {
    if (running)
      running->set(lists[place.list].site->device(), at(place).command.instruction);
  };
  auto isTimed = [&] { return shared.options.trace && mode != CudaMode::Replay; };
  for (const auto &[list, event] : turn.waits)
    if (Error error = wait(lists[list], event))
      return error;
  for (const CudaPlace &place : turn.places) {
    note(place);
    if (Fault *fault = at(place).fault; fault && mode != CudaMode::Replay) [[unlikely]]
      if (Error error = fault->meet(step))
        return named(place, error);
    if (isTimed())
      if (Error error = record(lists[place.list], slot.timings[place.list][place.index].begin.get()))
        return error;
  }
  const CudaPlace &first = turn.places.front();
  Error error = turn.link ? turn.link->enqueue() : enqueue(lists[first.list], at(first), slot, mode, upload);
  if (error)
    return named(first, error);
  for (const CudaPlace &place : turn.places) {
    const List &list = lists[place.list];
    if (isTimed())
      if (Error error = record(list, slot.timings[place.list][place.index].end.get()))
        return error;
    if (at(place).reached)
      if (Error error = record(list, at(place).reached.get()))
        return error;
    if (mode != CudaMode::Careful)
      continue;
    note(place);
    if (Error error = awaitStream(list, "running it"))
      return named(place, error);
  }
  return Error::success();
}

/// A command of one device.
Error CudaPhase::enqueue(const List &list, const Task &task, const CudaSlot &slot, CudaMode mode, CudaUpload &upload) {
  const Action &action = task.command.instruction->action;
  cudaStream_t stream = list.stream();
  if (Error error = checkCuda(cuda, cuda.cudaSetDevice(list.site->gpu), "using a GPU"))
    return error;
  if (const auto *call = std::get_if<Call>(&action)) {
    if (mode == CudaMode::Careful)
      if (Error error = list.site->executable->choose(call->kernel, task.arguments, task.sizes, stream))
        return error;
    return list.site->executable->enqueue(call->kernel, task.arguments, stream);
  }
  if (const auto *load = std::get_if<LoadParameter>(&action); load && !task.isStaged) {
    if (task.isInHost)
      return loadParameter(*shared.parameters, shared.plan->parameters[load->parameter], task.load,
                           {task.command.buffers[0].data, task.sizes[0]});
    std::vector<std::byte> bytes(task.sizes[0]);
    if (Error error = loadParameter(*shared.parameters, shared.plan->parameters[load->parameter], task.load, bytes))
      return error;
    return upload.copy(bytes, task.command.buffers[0].data, stream, list.site->gpu);
  }
  bool stores = std::holds_alternative<StoreOutput>(action);
  if (task.sizes[0] == 0 || (stores && !task.isStaged))
    return Error::success();
  auto copy = [&](void *source, void *target, cudaMemcpyKind kind) {
    return checkCuda(cuda, cuda.cudaMemcpyAsync(target, source, task.sizes[0], kind, stream), "copying");
  };
  if (std::holds_alternative<Copy>(action))
    return copy(task.arguments[0], task.arguments[1], cudaMemcpyDeviceToDevice);
  if (std::holds_alternative<Offload>(action))
    return copy(task.arguments[0], task.arguments[1], cudaMemcpyDeviceToHost);
  if (std::holds_alternative<Fetch>(action))
    return copy(task.arguments[0], task.arguments[1], cudaMemcpyHostToDevice);
  return stores ? copy(task.arguments[0], slot.at(task.staging), cudaMemcpyDeviceToHost)
                : copy(slot.at(task.staging), task.arguments[0], cudaMemcpyHostToDevice);
}

/// The streams branch off `origin` and come back to it, as a graph must.
Error CudaPhase::enqueueForked(CudaSlot &slot, cudaStream_t origin, cudaEvent_t forked, CudaUpload &upload) {
  if (Error error = checkCuda(cuda, cuda.cudaEventRecord(forked, origin), "recording an event"))
    return error;
  for (const List &list : lists)
    if (Error error = wait(list, forked))
      return error;
  links->beginStep(/*isCaptured=*/true);
  for (Turn &turn : turns)
    if (Error error = enqueue(turn, slot, 0, CudaMode::Replay, upload, nullptr))
      return error;
  for (size_t i = 0; i != lists.size(); ++i) {
    if (Error error = record(lists[i], slot.ends[i].get()))
      return error;
    if (Error error = checkCuda(cuda, cuda.cudaStreamWaitEvent(origin, slot.ends[i].get(), 0), "waiting for an event"))
      return error;
  }
  return Error::success();
}

Error CudaPhase::capture(CudaSlot &slot, cudaStream_t origin, int gpu, CudaUpload &upload) {
  if (slot.graph)
    return Error::success();
  auto forked = createCudaEvent(cuda, gpu), replayed = createCudaEvent(cuda, gpu);
  if (!forked || !replayed)
    return forked ? replayed.error() : forked.error();
  // What ended before has been waited for, and its events belong to the graph from here on.
  for (const List &list : lists)
    for (CudaSite::Stream &stream : list.site->streams)
      stream.lastEnd = nullptr;
  if (Error error = checkCuda(cuda, cuda.cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal),
                              "beginning to record a graph"))
    return error;
  Error error = enqueueForked(slot, origin, forked->get(), upload);
  cudaGraph_t recorded = nullptr;
  Error ended = checkCuda(cuda, cuda.cudaStreamEndCapture(origin, &recorded), "recording a graph");
  CudaGraph graph(cuda, recorded);
  if (error || ended) {
    (void)cuda.cudaGetLastError();
    return error ? error : ended;
  }
  cudaGraphExec_t made = nullptr;
  ended = checkCuda(cuda, cuda.cudaGraphInstantiate(&made, graph.get(), 0), "making a graph");
  CudaGraphExec executable(cuda, made);
  // Takes the GPU's memory for it, which its first launch must not find missing.
  if (!ended)
    ended = checkCuda(cuda, cuda.cudaGraphUpload(made, origin), "placing a graph on a GPU");
  if (ended) {
    (void)cuda.cudaGetLastError();
    return ended;
  }
  slot.graph = std::move(executable);
  slot.replayed = std::move(*replayed);
  return Error::success();
}

Error CudaPhase::replay(CudaSlot &slot, uint64_t step, cudaStream_t origin, int gpu) {
  for (uint32_t list = 0; list != lists.size(); ++list)
    for (uint32_t index = 0; index != lists[list].tasks.size(); ++index)
      if (Fault *fault = lists[list].tasks[index].fault) [[unlikely]]
        if (Error error = fault->meet(step))
          return named({list, index}, error);
  if (Error error = checkCuda(cuda, cuda.cudaSetDevice(gpu), "using a GPU"))
    return error;
  if (Error error = checkCuda(cuda, cuda.cudaGraphLaunch(slot.graph.get(), origin), "starting a graph"))
    return error;
  return checkCuda(cuda, cuda.cudaEventRecord(slot.replayed.get(), origin), "recording an event");
}

/// Where links can fail nobody may wait without asking these.
template <typename Wait, typename Ask>
Error CudaPhase::await(const char *what, const Wait &wait, const Ask &ask) const {
  if (!links || !links->canFail())
    return checkCuda(cuda, wait(), what, Status::Lost);
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now(), checked = begin;
  for (;;) {
    cudaError_t code = ask();
    if (code != cudaErrorNotReady)
      return checkCuda(cuda, code, what, Status::Lost);
    (void)cuda.cudaGetLastError(); // that it is not over yet would be found there
    auto now = Clock::now();
    if (now - checked >= checkedEvery) {
      if (Error error = links->check())
        return error;
      checked = now;
    }
    if (now - begin < checkedEvery)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(napsFor);
  }
}

Error CudaPhase::awaitStream(const List &list, const char *what) const {
  cudaStream_t stream = list.stream();
  return await(what, [&] { return cuda.cudaStreamSynchronize(stream); }, [&] { return cuda.cudaStreamQuery(stream); });
}

Error CudaPhase::await(const CudaSlot &slot, CudaMode mode) const {
  auto wait = [&](const CudaEvent &event, int gpu) {
    Error error = await(
        "a command of a step", [&] { return cuda.cudaEventSynchronize(event.get()); },
        [&] { return cuda.cudaEventQuery(event.get()); });
    if (!error)
      return error;
    return makeError(Status::Lost, "GPU ", gpu, ", ", error.message(),
                     "; with CLEAVE_CUDA_SYNC=1 the message names the node");
  };
  if (mode == CudaMode::Replay)
    return lists.empty() ? Error::success() : wait(slot.replayed, lists.front().site->gpu);
  for (size_t i = 0; i != lists.size(); ++i)
    if (Error error = wait(slot.ends[i], lists[i].site->gpu))
      return error;
  return Error::success();
}

Error CudaPhase::settle() const {
  Error first;
  for (const List &list : lists)
    if (Error error = awaitStream(list, "waiting for a GPU"); error && !first)
      first = error;
  return first;
}

} // namespace cleave::runtime
