// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loop of a cpu queue's thread, and what each action does.

#include "runtime/drivers/cpu/CpuQueue.h"

#include "runtime/Clock.h"
#include "runtime/ParameterLoad.h"
#include "runtime/Processes.h"
#include "runtime/Step.h"
#include "runtime/drivers/cpu/ComputeTeam.h"
#include "runtime/drivers/cpu/ShortTurns.h"

#include <cstring>
#include <omp.h>

namespace cleave::runtime {

CpuQueue::CpuQueue(CpuQueueContext &context, uint32_t index)
    : context(context), kind(context.shared->queues[context.index][index]),
      spin(kind == QueueKind::Compute ? context.spin : std::chrono::nanoseconds(0)),
      lists(2 * context.shared->entries.size()), lengths(lists.size()) {
  if (context.shared->options.trace)
    track = &context.shared->options.trace->add(context.shared->plan, context.site(), index, kind);
}

CpuQueue::~CpuQueue() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  arrivals.increment();
  thread.join();
}

Error CpuQueue::record(EntryPhase phase, std::vector<Command> commands) {
  List &list = lists[phase.index()];
  lengths[phase.index()] = static_cast<uint32_t>(commands.size());
  const EntryContext &running = context.shared->entries[phase.entry];
  for (Command &command : commands) {
    Task &task = list.emplace_back();
    for (const Buffer &buffer : command.buffers)
      task.arguments.push_back(buffer.data);
    const Site &site = running.sites[context.index];
    task.load = tileLoadOf(*running.entry, *site.program, context.shared->meshOf(site), site.member,
                           command.instruction->action);
    size_t operands = operandsOf(command.instruction->action).size();
    for (size_t i = 1; i < operands; ++i)
      task.more.push_back({command.buffers[2 * i].bytes(), command.buffers[2 * i + 1].bytes()});
    const Processes *processes = context.shared->options.processes;
    task.fault = Fault::of(processes ? processes->rank() : 0, command.instruction->action);
    task.command = std::move(command);
  }
  return Error::success();
}

void CpuQueue::submit(std::shared_ptr<Step> step) {
  {
    std::lock_guard lock(mutex);
    steps.push_back(std::move(step));
  }
  arrivals.increment();
  // A queue without instructions never gets here, and needs no thread.
  if (!thread.joinable())
    thread = std::thread([this] { serve(); });
}

bool CpuQueue::runHere(Step &step) {
  if (kind != QueueKind::Compute || context.threads != 1 || !context.cores.empty())
    return false;
  if (!running)
    running.emplace(context.device());
  RunningInstruction::OfThread ofThread(*running);
  int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  run(step);
  omp_set_num_threads(threads);
  return true;
}

void CpuQueue::serve() {
  // Transfers, too: they take the core from their own device, which waits for them, and not from one that computes.
  stayOn(context.cores);
  std::optional<ComputeTeam> team;
  if (kind == QueueKind::Compute)
    team.emplace(context.threads, context.places, context.cores.empty() ? availableCores() : context.cores);
  else
    takeShortTurns();
  if (!running)
    running.emplace(context.device());
  RunningInstruction::OfThread ofThread(*running);
  for (uint32_t served = 0;; ++served) {
    arrivals.wait(served + 1, spin);
    std::shared_ptr<Step> step;
    {
      std::lock_guard lock(mutex);
      if (steps.empty())
        return; // only the destructor counts an arrival without a step
      step = std::move(steps.front());
      steps.pop_front();
    }
    if (team)
      team->settle();
    run(*step);
  }
}

uint32_t CpuQueue::base(const Step &step) const { return static_cast<uint32_t>(step.countBefore(lengths)); }

void CpuQueue::run(Step &step) {
  if (context.hasSeveralQueues)
    context.endedSteps.wait(static_cast<uint32_t>(step.countBefore(context.activeQueues)), spin);
  failedAt.store(UINT32_MAX, std::memory_order_relaxed);
  Error error;
  StepTimes times{now(), 0};
  uint32_t start = base(step), value = 0;
  bool isRecorded = track && track->records(step.phase.phase, step.phase.entry, step.number);
  for (const Task &task : lists[step.phase.index()]) {
    ++value;
    if (!task.command.waits.empty())
      running->set(nullptr);
    for (const TimelinePoint &point : task.command.waits)
      if (Error carried = static_cast<CpuQueue *>(point.queue)->await(step, point.value, spin); carried && !error)
        error = carried;
    running->set(task.command.instruction);
    int64_t begin = isRecorded ? now() : 0;
    if (task.fault && !error) [[unlikely]]
      error = own(task, task.fault->meet(step.number)).atNode(task.command.instruction->node);
    Error outcome = execute(task, step, error);
    if (isRecorded)
      track->record({task.command.instruction, step.phase.phase, step.number, begin, now(), step.phase.entry});
    if (!error)
      error = outcome.atNode(task.command.instruction->node);
    if (error && failedAt.load(std::memory_order_relaxed) == UINT32_MAX) {
      failure = error;
      failedAt.store(value, std::memory_order_release);
    }
    if (task.command.signals)
      timeline.signal(start + value);
  }
  running->set(nullptr);
  times.end = now();
  if (context.hasSeveralQueues)
    context.endedSteps.increment();
  step.finish(times, error);
}

Error CpuQueue::await(const Step &step, uint32_t value, std::chrono::nanoseconds spin) const {
  timeline.wait(base(step) + value, spin);
  return failedAt.load(std::memory_order_acquire) <= value ? failure : Error::success();
}

std::optional<Error> CpuQueue::communicate(const Task &task, const Step &step, const Error &poison) const {
  const Action &action = task.command.instruction->action;
  Communicator &communicator = *context.shared->entries[step.phase.entry].communicator;
  const Phase phase = step.phase.phase;
  auto buffer = [&](size_t i) { return task.command.buffers[i].bytes(); };
  Participant participant{context.index, {}, {}, poison};
  if (const auto *send = std::get_if<Send>(&action)) {
    participant.source = buffer(0);
    return communicator.exchange({phase, send->channel, step.number}, participant);
  }
  if (const auto *receive = std::get_if<Receive>(&action)) {
    participant.target = buffer(0);
    return communicator.exchange({phase, receive->channel, step.number}, participant);
  }
  if (operandsOf(action).empty())
    return std::nullopt;
  participant.source = buffer(0);
  participant.target = buffer(1);
  participant.more = task.more;
  if (const auto *exchange = std::get_if<Exchange>(&action))
    return communicator.exchange({phase, exchange->channel, step.number}, participant);
  if (const auto *all = std::get_if<AllReduce>(&action))
    return communicator.reduce({phase, all->channel, step.number}, participant);
  if (const auto *scatter = std::get_if<ReduceScatter>(&action))
    return communicator.reduce({phase, scatter->channel, step.number}, participant);
  return std::nullopt;
}

/// A poisoned instruction does nothing, but for transfers: the other ends must not wait forever. Other processes have
/// to be told which device an error is from.
Error CpuQueue::execute(const Task &task, Step &step, const Error &poison) const {
  if (auto outcome = communicate(task, step, poison))
    return *outcome;
  if (poison)
    return poison;
  return own(task, compute(task, step));
}

/// Says which device it was, where others have to be told or it is lost. With other processes it is noted for the
/// guard, too: they may never agree on it.
Error CpuQueue::own(const Task &task, const Error &error) const {
  if (!error || (!context.shared->hasOthers() && error.status() != Status::Lost))
    return error;
  const Instruction &instruction = *task.command.instruction;
  Error named(error.status(),
              "device \"" + context.device().name + "\", " + actionName(instruction.action) + ": " + error.message(),
              error.node().empty() ? instruction.node : error.node());
  if (Logbook *book = Logbook::own())
    book->fail(named);
  return named;
}

/// What an instruction does on the device alone.
Error CpuQueue::compute(const Task &task, Step &step) const {
  const Action &action = task.command.instruction->action;
  auto buffer = [&](size_t i) { return task.command.buffers[i].bytes(); };
  if (const auto *call = std::get_if<Call>(&action))
    return context.executable->call(call->kernel, task.arguments.data());
  if (std::holds_alternative<Copy>(action) || std::holds_alternative<Offload>(action) ||
      std::holds_alternative<Fetch>(action)) {
    if (!buffer(0).empty())
      std::memcpy(buffer(1).data(), buffer(0).data(), buffer(0).size());
  } else if (const auto *input = std::get_if<LoadInput>(&action)) {
    loadTile(task.load, step.inputs[input->input].bytes(), buffer(0));
  } else if (const auto *output = std::get_if<StoreOutput>(&action)) {
    storeTile(task.load, buffer(0), step.outputs[output->output].bytes());
  } else if (std::holds_alternative<LoadIndex>(action)) {
    std::memcpy(buffer(0).data(), &task.load.index, sizeof task.load.index);
  } else {
    const Parameter &parameter = context.shared->plan->parameters[std::get<LoadParameter>(action).parameter];
    return loadParameter(*context.shared->parameters, parameter, task.load, buffer(0));
  }
  return Error::success();
}

} // namespace cleave::runtime
