// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two threads. Between ways to run steps (eagerly, as graphs, carefully) everything comes to a stop, so that each
// needs to know its own kind of order only.

#include "runtime/drivers/cuda/CudaIssuer.h"

#include "runtime/Clock.h"
#include "runtime/watch/Logbook.h"

#include <cstdlib>
#include <iostream>

namespace cleave::runtime {

/// Whether the environment variable is set to that text.
static bool isSetTo(const char *variable, const std::string &text) {
  const char *value = std::getenv(variable);
  return value && value == text;
}

CudaIssuer::CudaIssuer(const CudaRuntime &cuda, DriverContext &shared)
    : cuda(cuda), shared(shared), isCareful(isSetTo("CLEAVE_CUDA_SYNC", "1")),
      usesGraphs(!isSetTo("CLEAVE_CUDA_GRAPHS", "0") && !shared.options.trace), upload(cuda) {}

CudaIssuer::~CudaIssuer() {
  if (!issuing.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    isStopping = true;
  }
  changed.notify_all();
  issuing.join();
  {
    std::lock_guard lock(mutex);
    hasStopped = true;
  }
  changed.notify_all();
  finishing.join();
}

Error CudaIssuer::record(CudaSite &site, const Queue &owner, uint32_t queue, EntryPhase phase,
                         std::vector<Command> commands) {
  Running &running = phases[phase.index()];
  if (!running.phase)
    running.phase = std::make_unique<CudaPhase>(cuda, shared, phase);
  if (shared.options.trace)
    if (Error error = setClock(site.gpu))
      return error;
  return running.phase->add(site, owner, queue, std::move(commands));
}

void CudaIssuer::submit(std::shared_ptr<Step> step) {
  Running &running = phases.at(step->phase.index());
  if (++running.arrived != running.phase->numLists())
    return;
  running.arrived = 0;
  {
    std::lock_guard lock(mutex);
    submitted.push_back(std::move(step));
  }
  changed.notify_all();
  if (!issuing.joinable()) {
    issuing = std::thread([this] { serve(); });
    finishing = std::thread([this] { finishSteps(); });
  }
}

void CudaIssuer::serve() {
  RunningInstruction activity(shared.plan->devices.front());
  for (;;) {
    std::shared_ptr<Step> step;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return isStopping || !submitted.empty(); });
      if (submitted.empty())
        return;
      step = std::move(submitted.front());
      submitted.pop_front();
    }
    Flight flight = issue(std::move(step), activity);
    {
      std::lock_guard lock(mutex);
      flights.push_back(std::move(flight));
    }
    changed.notify_all();
  }
}

void CudaIssuer::finishSteps() {
  RunningInstruction activity(shared.plan->devices.front());
  for (;;) {
    Flight *flight = nullptr;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return hasStopped || !flights.empty(); });
      if (flights.empty())
        return;
      flight = &flights.front();
    }
    finish(*flight, activity);
    // Out of the list before the caller learns of it, who may then destroy everything.
    Flight done;
    {
      std::lock_guard lock(mutex);
      done = std::move(flights.front());
      flights.pop_front();
      if (done.slot)
        done.slot->isBusy = false;
    }
    changed.notify_all();
    if (done.error && shared.hasOthers())
      if (Logbook *book = Logbook::own())
        book->fail(done.error);
    StepTimes times{done.begin, now()};
    for (size_t i = done.running->phase->numLists(); i != 0; --i)
      done.step->finish(times, done.error);
  }
}

void CudaIssuer::drain() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return flights.empty(); });
}

CudaSlot &CudaIssuer::takeSlot(Running &running) {
  std::unique_lock lock(mutex);
  CudaSlot *free = nullptr;
  changed.wait(lock, [&] {
    for (CudaSlot &slot : running.slots)
      if (!free && !slot.isBusy)
        free = &slot;
    return free != nullptr;
  });
  free->isBusy = true;
  return *free;
}

CudaMode CudaIssuer::modeOf(const Running &running) const {
  if (isCareful || !running.hasRun)
    return CudaMode::Careful;
  return usesGraphs && !running.refusesGraphs ? CudaMode::Replay : CudaMode::Eager;
}

CudaIssuer::Flight CudaIssuer::issue(std::shared_ptr<Step> step, RunningInstruction &activity) {
  Flight flight;
  flight.begin = now();
  flight.running = &phases.at(step->phase.index());
  flight.step = std::move(step);
  {
    std::lock_guard lock(mutex);
    flight.error = lost;
  }
  if (flight.error)
    return flight;
  flight.mode = modeOf(*flight.running);
  flight.slot = &takeSlot(*flight.running);
  if (Error error = start(flight, activity))
    flight.error = stop(*flight.running, error);
  return flight;
}

Error CudaIssuer::build() {
  if (std::exchange(isBuilt, true))
    return unbuilt;
  for (auto &[index, running] : phases)
    if (!unbuilt)
      unbuilt = running.phase->build(*links);
  return unbuilt;
}

Error CudaIssuer::start(Flight &flight, RunningInstruction &activity) {
  Running &running = *flight.running;
  if (Error error = build())
    return error;
  if (Error error = running.phase->prepare(*flight.slot))
    return error;
  if (Error error = running.phase->fill(*flight.slot, *flight.step))
    return error;
  if (flight.mode == CudaMode::Careful || flight.mode != lastMode)
    drain();
  lastMode = flight.mode;
  if (flight.mode == CudaMode::Replay) {
    Error error = startReplay(flight, activity);
    activity.set(nullptr);
    if (!running.refusesGraphs)
      return error;
    drain();
    lastMode = flight.mode = CudaMode::Eager;
  }
  if (Error error = running.phase->enqueue(*flight.slot, flight.step->number, flight.mode, upload, activity))
    return error;
  running.hasRun = true;
  return Error::success();
}

/// What cannot be recorded runs without a graph from here on.
Error CudaIssuer::startReplay(Flight &flight, RunningInstruction &activity) {
  Running &running = *flight.running;
  activity.setStep(ActivityKind::Work, running.phase->devicesText() + " at the start of the replay of step ",
                   flight.step->number);
  if (Error error = prepareOrigin(running))
    return error;
  if (Error error = running.phase->capture(*flight.slot, origin.get(), originGpu, upload)) {
    std::cerr << "cleave: steps run without a CUDA graph: " << error.text() << '\n';
    running.refusesGraphs = true;
    return error;
  }
  return running.phase->replay(*flight.slot, flight.step->number, origin.get(), originGpu);
}

Error CudaIssuer::prepareOrigin(const Running &running) {
  if (origin)
    return checkCuda(cuda, cuda.cudaSetDevice(originGpu), "using a GPU");
  originGpu = running.phase->firstGpu();
  auto made = createCudaStream(cuda, originGpu);
  if (made)
    origin = std::move(*made);
  return made.error();
}

Error CudaIssuer::stop(const Running &running, const Error &error) {
  drain();
  (void)cuda.cudaGetLastError();
  Error broken = running.phase->settle();
  if (!broken)
    return error;
  Error final(Status::Lost, error.message(), error.node());
  std::lock_guard lock(mutex);
  if (!lost)
    lost = Error(Status::Lost, "a GPU was lost by an earlier step: " + error.message(), error.node());
  return final;
}

void CudaIssuer::finish(Flight &flight, RunningInstruction &activity) {
  if (flight.error)
    return;
  const CudaPhase &phase = *flight.running->phase;
  // Of a careful step each command has been waited for.
  if (flight.mode != CudaMode::Careful)
    activity.setStep(phase.waitsForOthers() ? ActivityKind::Communication : ActivityKind::Work,
                     phase.devicesText() + (flight.mode == CudaMode::Replay ? " in the replay of step " : " in step "),
                     flight.step->number);
  flight.error = phase.await(*flight.slot, flight.mode);
  // Where all wait in graphs, who is not in one is known by this.
  if (flight.step->phase.phase == Phase::Body)
    activity.setStep(ActivityKind::Between, phase.devicesText() + " after step ", flight.step->number);
  else
    activity.set(nullptr);
  if (flight.error) {
    std::lock_guard lock(mutex);
    if (!lost)
      lost = Error(Status::Lost, "a GPU was lost by an earlier step: " + flight.error.message());
    return;
  }
  phase.store(*flight.slot, *flight.step);
  if (shared.options.trace)
    phase.trace(*flight.slot, flight.step->number, [&](int gpu, cudaEvent_t event) { return timeOf(gpu, event); });
}

Error CudaIssuer::setClock(int gpu) {
  Clock &clock = clocks[gpu];
  if (clock.event)
    return Error::success();
  auto stream = createCudaStream(cuda, gpu);
  auto mark = createCudaEvent(cuda, gpu, /*timed=*/true);
  if (!stream || !mark)
    return stream ? mark.error() : stream.error();
  if (Error error = checkCuda(cuda, cuda.cudaEventRecord(mark->get(), stream->get()), "recording an event"))
    return error;
  if (Error error = checkCuda(cuda, cuda.cudaEventSynchronize(mark->get()), "waiting for an event"))
    return error;
  clock.time = now();
  clock.event = std::move(*mark);
  return Error::success();
}

/// CUDA tells the time between two events only.
int64_t CudaIssuer::timeOf(int gpu, cudaEvent_t event) const {
  const Clock &clock = clocks.at(gpu);
  float milliseconds = 0;
  if (cuda.cudaEventElapsedTime(&milliseconds, clock.event.get(), event) != cudaSuccess)
    return clock.time;
  return clock.time + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
}

} // namespace cleave::runtime
