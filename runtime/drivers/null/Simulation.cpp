// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulation's thread: takes each queue that may be able to go on as far as it gets.

#include "runtime/drivers/null/Simulation.h"

#include <algorithm>
#include <cmath>

namespace cleave::runtime {

Simulation::~Simulation() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  arrived.notify_one();
  thread.join();
}

void Simulation::submit(SimulatedQueue &queue, std::shared_ptr<Step> step) {
  {
    std::lock_guard lock(mutex);
    arrivals.emplace_back(&queue, std::move(step));
  }
  arrived.notify_one();
}

void Simulation::settle() {
  std::unique_lock lock(mutex);
  idled.wait(lock, [&] { return idle && arrivals.empty(); });
}

void Simulation::serve() {
  for (;;) {
    {
      std::unique_lock lock(mutex);
      idle = true;
      idled.notify_all();
      arrived.wait(lock, [&] { return stopping || !arrivals.empty(); });
      idle = false;
      if (arrivals.empty())
        return;
      for (auto &[queue, step] : arrivals) {
        queue->steps.push_back(std::move(step));
        wake(*queue);
      }
      arrivals.clear();
    }
    while (!runnable.empty()) {
      SimulatedQueue &queue = *runnable.front();
      runnable.pop_front();
      queue.runnable = false;
      advance(queue);
    }
  }
}

void Simulation::wake(SimulatedQueue &queue) {
  if (!std::exchange(queue.runnable, true))
    runnable.push_back(&queue);
}

void Simulation::advance(SimulatedQueue &queue) {
  while (!queue.steps.empty() && begin(queue)) {
    while (queue.ends.size() != queue.lists[static_cast<unsigned>(queue.step->phase)].size())
      if (!runNext(queue))
        return;
    finish(queue);
  }
}

/// Begins the first step in line, unless that has begun; false when the device is still busy with the step before.
bool Simulation::begin(SimulatedQueue &queue) {
  if (queue.begun)
    return true;
  const Step &step = *queue.steps.front();
  SimulatedDevice &device = *queue.device;
  if (step.phase == Phase::Body && device.endedQueues < step.number * device.bodyQueues)
    return false;
  queue.begun = true;
  queue.step = queue.steps.front();
  queue.ends.clear();
  queue.time = std::max(queue.time, step.earliest);
  if (step.phase == Phase::Body && step.number > 0)
    queue.time = std::max(queue.time, device.stepEnd[(step.number - 1) % 2]);
  queue.times = {INT64_MAX, queue.time};
  return true;
}

const Command &Simulation::nextCommand(const SimulatedQueue &queue) {
  return queue.lists[static_cast<unsigned>(queue.step->phase)][queue.ends.size()];
}

/// When the command can begin, if its waits have been simulated already.
std::optional<int64_t> Simulation::readyTime(const SimulatedQueue &queue, const Command &command) const {
  int64_t ready = queue.time;
  for (const TimelinePoint &point : command.waits) {
    auto other = std::find_if(queue.device->queues.begin(), queue.device->queues.end(),
                              [&](const SimulatedQueue *candidate) { return candidate->owner == point.queue; });
    if ((*other)->step != queue.step || (*other)->ends.size() < point.value)
      return std::nullopt;
    ready = std::max(ready, (*other)->ends[point.value - 1]);
  }
  return ready;
}

/// Simulates the queue's next command; false when it has to wait.
bool Simulation::runNext(SimulatedQueue &queue) {
  const Command &command = nextCommand(queue);
  auto ready = readyTime(queue, command);
  if (!ready)
    return false;
  const Action &action = command.instruction->action;
  if (const auto *send = std::get_if<Send>(&action))
    return meet(queue, send->channel, *ready);
  if (const auto *receive = std::get_if<Receive>(&action))
    return meet(queue, receive->channel, *ready);
  complete(queue, *ready, *ready + duration(queue));
  return true;
}

/// Ends both sides of a transfer if the other side is there already.
bool Simulation::meet(SimulatedQueue &queue, uint32_t channel, int64_t ready) {
  auto key = std::tuple(queue.step->phase, queue.step->number, channel);
  auto [entry, first] = meetings.try_emplace(key, Meeting{&queue, ready});
  Meeting other = entry->second;
  if (first || other.queue == &queue)
    return false;
  meetings.erase(entry);
  bool sends = std::holds_alternative<Send>(nextCommand(queue).instruction->action);
  int64_t begin = std::max(ready, other.ready);
  int64_t end = begin + duration(sends ? queue : *other.queue);
  complete(queue, begin, end);
  complete(*other.queue, begin, end);
  wake(*other.queue);
  return true;
}

void Simulation::complete(SimulatedQueue &queue, int64_t begin, int64_t end) {
  const Instruction &instruction = *nextCommand(queue).instruction;
  if (queue.track)
    queue.track->events.push_back({&instruction, queue.step->phase, queue.step->number, begin, end});
  queue.times = {std::min(queue.times.begin, begin), std::max(queue.times.end, end)};
  queue.time = end;
  queue.ends.push_back(end);
  for (SimulatedQueue *neighbour : queue.device->queues)
    if (neighbour != &queue)
      wake(*neighbour);
}

void Simulation::finish(SimulatedQueue &queue) {
  std::shared_ptr<Step> step = std::move(queue.steps.front());
  queue.steps.pop_front();
  queue.begun = false;
  SimulatedDevice &device = *queue.device;
  if (step->phase == Phase::Body) {
    ++device.endedQueues;
    int64_t &end = device.stepEnd[step->number % 2];
    end = std::max(end, queue.times.end);
    for (SimulatedQueue *neighbour : device.queues)
      wake(*neighbour);
  }
  step->finish(queue.times, Error::success());
}

int64_t Simulation::duration(const SimulatedQueue &queue) const {
  if (!context.options.seconds)
    return 0;
  return std::llround(1e9 * context.options.seconds(queue.device->device, *nextCommand(queue).instruction));
}

} // namespace cleave::runtime
