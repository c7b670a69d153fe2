// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two threads. Between ways to run steps (eagerly, as graphs, carefully) everything comes to a stop, so that each
// needs to know its own kind of order only.

#include "runtime/drivers/cuda/CudaIssuer.h"

#include "runtime/Clock.h"
#include "runtime/Processes.h"
#include "runtime/watch/Logbook.h"

#include <cstdlib>
#include <iostream>
#include <limits>

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
  if (shared.options.trace && !clocks.contains(site.gpu))
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

void CudaIssuer::chooseGpu() const {
  // Where this fails everything else does, and says so.
  (void)cuda.cudaSetDevice(phases.begin()->second.phase->firstGpu());
}

void CudaIssuer::serve() {
  RunningInstruction activity(shared.plan->devices.front());
  RunningInstruction::OfThread ofThread(activity);
  chooseGpu();
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
  RunningInstruction::OfThread ofThread(activity);
  chooseGpu();
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
      tellOthers(*done.running->phase, done.error);
    StepTimes times{done.begin, now()};
    for (size_t i = done.running->phase->numLists(); i != 0; --i)
      done.step->finish(times, done.error);
  }
}

/// The others' GPUs may wait for communications that are not put on this one's streams any more: then they never come
/// to agree on the error.
void CudaIssuer::tellOthers(const CudaPhase &phase, const Error &error) const {
  if (phase.waitsForOthers())
    shared.options.processes->abort(Error(Status::Lost, error.message(), error.node()));
  if (Logbook *book = Logbook::own())
    book->fail(error);
}

void CudaIssuer::drain() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return flights.empty(); });
}

CudaSlot &CudaIssuer::takeSlot(Running &running) {
  CudaSlot &slot = running.slots[running.issued++ % numSlots];
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !slot.isBusy; });
  slot.isBusy = true;
  return slot;
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

/// What cannot be recorded runs without a graph from here on; not so where other processes would go on with theirs.
Error CudaIssuer::startReplay(Flight &flight, RunningInstruction &activity) {
  Running &running = *flight.running;
  activity.setStep(ActivityKind::Work, running.phase->devicesText() + " at the start of the replay of step ",
                   flight.step->number);
  if (Error error = prepareOrigin(running))
    return error;
  if (Error error = running.phase->capture(*flight.slot, origin.get(), originGpu, upload)) {
    if (running.phase->waitsForOthers())
      return Error(error.status(), error.message() + "; set CLEAVE_CUDA_GRAPHS=0 for all ranks", error.node());
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
  if (!broken && error.status() != Status::Lost)
    return error;
  lose(error);
  return Error(Status::Lost, error.message(), error.node());
}

void CudaIssuer::lose(const Error &error) {
  if (links)
    links->abort(error);
  std::lock_guard lock(mutex);
  if (!lost)
    lost =
        Error(Status::Lost, "a GPU, or its connection, was lost by an earlier step: " + error.message(), error.node());
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
    lose(flight.error);
    return;
  }
  phase.store(*flight.slot, *flight.step);
  if (shared.options.trace)
    trace(flight);
}

/// Times between events are float32: of an hour they know quarters of a millisecond, of two seconds those of a
/// microsecond. Marks are renewed between steps, so that one step's times fit together.
void CudaIssuer::trace(const Flight &flight) {
  constexpr float mostMilliseconds = 2000;
  const CudaPhase &phase = *flight.running->phase;
  for (auto [gpu, event] : phase.timedEvents(*flight.slot))
    if (millisecondsTo(gpu, event) > mostMilliseconds)
      (void)setClock(gpu); // without it times are only less exact
  phase.trace(*flight.slot, flight.step->number, [&](int gpu, cudaEvent_t event) { return timeOf(gpu, event); });
}

/// A mark is made after it is asked for and before one hears of it. Of several the one where that took the shortest
/// knows best, since threads and interrupts get between.
Error CudaIssuer::setClock(int gpu) {
  constexpr unsigned tries = 8;
  auto stream = createCudaStream(cuda, gpu);
  if (!stream)
    return stream.error();
  Clock clock;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (unsigned i = 0; i != tries; ++i) {
    auto mark = createCudaEvent(cuda, gpu, /*timed=*/true);
    if (!mark)
      return mark.error();
    int64_t before = now();
    if (Error error = checkCuda(cuda, cuda.cudaEventRecord(mark->get(), stream->get()), "recording an event"))
      return error;
    if (Error error = checkCuda(cuda, cuda.cudaEventSynchronize(mark->get()), "waiting for an event"))
      return error;
    int64_t took = now() - before;
    if (took >= least)
      continue;
    least = took;
    clock.time = before + took / 2;
    clock.event = std::move(*mark);
  }
  clocks[gpu] = std::move(clock);
  return Error::success();
}

/// CUDA tells the time between two events only, negative where the second was first.
float CudaIssuer::millisecondsTo(int gpu, cudaEvent_t event) const {
  float milliseconds = 0;
  return cuda.cudaEventElapsedTime(&milliseconds, clocks.at(gpu).event.get(), event) == cudaSuccess ? milliseconds : 0;
}

int64_t CudaIssuer::timeOf(int gpu, cudaEvent_t event) const {
  return clocks.at(gpu).time + static_cast<int64_t>(static_cast<double>(millisecondsTo(gpu, event)) * 1e6);
}

} // namespace cleave::runtime
