// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread of its own ends steps, in their order: it waits for this process's part and then for the others' replies, so
// that whoever submits never waits for another process's part of an earlier step.

#include "runtime/serve/DividedExecutor.h"

#include "runtime/Clock.h"
#include "runtime/training/StopSignals.h"

#include <chrono>

namespace cleave::runtime::serve {

/// How often somebody looks whether a process is lost while nothing is heard of it.
static constexpr std::chrono::milliseconds betweenLooks{50};

Expected<std::unique_ptr<DividedExecutor>>
DividedExecutor::load(ServingProcesses &processes, std::shared_ptr<const ServedPlan> served, unsigned inFlight,
                      ExecutorOptions options, std::shared_ptr<Trace> trace, std::function<void()> lost) {
  std::unique_ptr<DividedExecutor> made(new DividedExecutor(processes));
  std::shared_ptr<Kept> kept = made->kept;
  kept->served = served;
  kept->trace = std::move(trace);
  options.trace = kept->trace.get();
  made->stepOver = std::move(options.stepOver);
  made->lost = std::move(lost);
  options.stepOver = [kept] {
    std::lock_guard lock(kept->mutex);
    ++kept->stepsOver;
    kept->changed.notify_all();
  };
  auto part = processes.load(served, inFlight, std::move(options), made->line);
  if (!part)
    return part.error();
  kept->part = std::move(*part);
  const Plan &plan = served->plan.getPlan();
  made->parts.resize(processes.count());
  for (uint32_t rank = 1; rank != processes.count(); ++rank)
    for (const std::string &name : served->plan.getEntries())
      made->parts[rank].push_back(stepPartsOf(*plan, **plan.entry(name), kept->part.rankOfDevice, rank));
  made->finisher = std::thread([each = made.get()] { each->finishSteps(); });
  return made;
}

DividedExecutor::~DividedExecutor() {
  if (!finisher.joinable())
    return; // it was not loaded
  {
    std::lock_guard lock(kept->mutex);
    isEnding = true;
  }
  kept->changed.notify_all();
  finisher.join();
  kept->request = {};
  for (uint32_t rank = 1; rank != processes.count() && !loss(); ++rank)
    (void)processes.getMessages().send(rank, line, {partOf(kept->request)});
  if (!loss())
    processes.unload(line, kept->part);
  static std::mutex mutex;
  static auto &abandoned = *new std::vector<std::shared_ptr<Kept>>;
  std::lock_guard lock(mutex);
  if (loss() && kept->part.executor)
    abandoned.push_back(std::move(kept));
}

Expected<Ticket> DividedExecutor::submit(uint32_t entry, std::vector<HostTensor> inputs,
                                         std::vector<HostTensor> outputs) {
  kept->request = {StepRequest::Kind::Step, entry};
  for (uint32_t rank = 1; rank != processes.count(); ++rank) {
    if (Error error = loss())
      return error;
    const TensorParts &own = partsOf(rank, entry).inputs;
    kept->inputs.resize(own.bytes());
    own.pack(inputs, kept->inputs);
    if (Error error = processes.getMessages().send(rank, line, {partOf(kept->request), partOf(kept->inputs)}))
      return error;
  }
  std::vector<HostTensor> targets = outputs;
  auto ticket = kept->part.executor->submit(entry, std::move(inputs), std::move(outputs));
  if (!ticket)
    return ticket;
  std::lock_guard lock(kept->mutex);
  steps.push_back({*ticket, entry, std::move(targets)});
  kept->changed.notify_all();
  return ticket;
}

Expected<StepTimes> DividedExecutor::wait(Ticket ticket) {
  std::unique_lock lock(kept->mutex);
  kept->changed.wait(lock, [&] { return over.contains(ticket); });
  Expected<StepTimes> times = std::move(over.at(ticket));
  over.erase(ticket);
  return times;
}

void DividedExecutor::finishSteps() {
  bool hasToldLoss = false;
  std::unique_lock lock(kept->mutex);
  while (true) {
    bool isLost = static_cast<bool>(loss());
    if (isLost && !std::exchange(hasToldLoss, true)) {
      lock.unlock();
      lost();
      lock.lock();
    }
    // What is lost does not end by itself.
    if (!steps.empty() && (isLost || kept->stepsOver > finished)) {
      Step step = std::move(steps.front());
      steps.pop_front();
      lock.unlock();
      Expected<StepTimes> times = finish(step);
      lock.lock();
      ++finished;
      over.emplace(step.ticket, std::move(times));
      kept->changed.notify_all();
      lock.unlock();
      stepOver();
      lock.lock();
    } else if (isEnding && steps.empty()) {
      return;
    } else {
      kept->changed.wait_for(lock, betweenLooks);
    }
  }
}

/// Takes all replies, also after an error.
Expected<StepTimes> DividedExecutor::finish(const Step &step) {
  if (Error error = loss())
    return error;
  auto times = kept->part.executor->wait(step.ticket);
  Error error = atRank(times.error(), 0);
  for (uint32_t rank = 1; rank != processes.count(); ++rank) {
    Error theirs = receive(rank, step);
    error = error ? error : theirs;
  }
  // Then what this process waited for may not have come.
  if (Error lost = loss())
    return lost;
  if (error)
    return Error(Status::Lost, error.message(), error.node());
  times->end = now();
  return times;
}

Error DividedExecutor::receive(uint32_t rank, const Step &step) {
  Messages &messages = processes.getMessages();
  if (Error error = messages.receive(rank, line, {partOf(kept->reply)}))
    return error;
  if (kept->reply.signal != 0)
    StopSignals::ask(static_cast<int>(kept->reply.signal));
  if (kept->reply.errorBytes != 0) {
    kept->error.resize(kept->reply.errorBytes);
    Error error = messages.receive(rank, line, {partOf(kept->error)});
    return error ? error : unpackError(kept->error);
  }
  const TensorParts &theirs = partsOf(rank, step.entry).outputs;
  kept->outputs.resize(theirs.bytes());
  if (Error error = messages.receive(rank, line, {partOf(kept->outputs)}))
    return error;
  theirs.unpack(kept->outputs, step.outputs);
  return Error::success();
}

} // namespace cleave::runtime::serve
