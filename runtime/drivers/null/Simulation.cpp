// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulation's thread: takes each queue that may be able to go on as far as it gets.

#include "runtime/drivers/null/Simulation.h"

#include "runtime/Tile.h"

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

const SimulatedList *Simulation::share(const SimulatedQueue &queue, uint32_t index, EntryPhase phase,
                                       const std::vector<Command> &commands) {
  const Program *program = context.entries[phase.entry].sites[queue.device->index].program;
  auto [entry, first] = lists.try_emplace({program, index, phase.phase});
  if (!first)
    return &entry->second;
  for (const Command &command : commands) {
    SimulatedCommand &to = entry->second.emplace_back(SimulatedCommand{command.instruction, {}});
    for (const TimelinePoint &point : command.waits) {
      auto other = std::ranges::find(queue.device->queues, point.queue, &SimulatedQueue::owner);
      to.waits.push_back({static_cast<uint32_t>(other - queue.device->queues.begin()), point.value});
    }
  }
  return &entry->second;
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
    while (queue.ends.size() != queue.lists[queue.step->phase.index()]->size())
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
  NullDeviceState &device = *queue.device;
  if (device.endedQueues < step.countBefore(device.activeQueues))
    return false;
  queue.begun = true;
  queue.step = queue.steps.front();
  queue.ends.clear();
  queue.time = std::max(queue.time, step.earliest);
  if (uint64_t earlier = step.countBefore(device.takesPart); earlier > 0)
    queue.time = std::max(queue.time, device.stepEnd[(earlier - 1) % 2]);
  queue.times = {INT64_MAX, queue.time};
  return true;
}

const SimulatedCommand &Simulation::nextCommand(const SimulatedQueue &queue) {
  return (*queue.lists[queue.step->phase.index()])[queue.ends.size()];
}

/// When the command can begin, if its waits have been simulated already.
std::optional<int64_t> Simulation::readyTime(const SimulatedQueue &queue, const SimulatedCommand &command) const {
  int64_t ready = queue.time;
  for (const Wait &wait : command.waits) {
    const SimulatedQueue &other = *queue.device->queues[wait.queue];
    if (other.step != queue.step || other.ends.size() < wait.value)
      return std::nullopt;
    ready = std::max(ready, other.ends[wait.value - 1]);
  }
  return ready;
}

/// Simulates the queue's next command; false when it has to wait.
bool Simulation::runNext(SimulatedQueue &queue) {
  const SimulatedCommand &command = nextCommand(queue);
  auto ready = readyTime(queue, command);
  if (!ready)
    return false;
  if (auto group = groupOf(queue, command.instruction->action))
    return meet(queue, group->first, group->second, *ready);
  complete(queue, *ready, *ready + duration(queue));
  return true;
}

/// The channel of a communication, and the sites that meet there: those that differ only in the axes that matter.
std::optional<std::pair<uint32_t, Simulation::Group>> Simulation::groupOf(const SimulatedQueue &queue,
                                                                          const Action &action) const {
  const Site &site = context.sites[queue.device->index];
  const Mesh &mesh = context.meshOf(site);
  auto both = [&](uint32_t channel, uint32_t peer) {
    auto size = static_cast<uint32_t>(mesh.devices.size() + context.plan->meshes[peer].devices.size());
    return std::pair(channel, Group{0, size});
  };
  auto along = [&](uint32_t channel, const auto &matters) {
    Coordinates at = coordinatesOf(mesh, site.member);
    Group group{0, 1};
    for (uint32_t axis = 0; axis != at.size(); ++axis)
      if (matters(axis)) {
        group.size *= mesh.axes[axis].size;
        at[axis] = 0;
      }
    group.number = memberAt(mesh, at);
    return std::pair(channel, group);
  };
  auto among = [](const std::vector<uint32_t> &axes) {
    return [&](uint32_t axis) { return std::ranges::find(axes, axis) != axes.end(); };
  };
  if (const auto *send = std::get_if<Send>(&action))
    return both(send->channel, send->mesh);
  if (const auto *receive = std::get_if<Receive>(&action))
    return both(receive->channel, receive->mesh);
  if (const auto *all = std::get_if<AllReduce>(&action))
    return along(all->channel, among(all->axes));
  if (const auto *scatter = std::get_if<ReduceScatter>(&action))
    return along(scatter->channel, among(scatter->axes));
  if (const auto *exchange = std::get_if<Exchange>(&action)) {
    // Only axes that a source cuts separate a device from what it needs.
    const Entry &entry = *context.entries[queue.step->phase.entry].entry;
    return along(exchange->channel, [&](uint32_t axis) {
      return std::ranges::any_of(exchange->operands, [&](const Operand &operand) {
        const Tile *source = entry.tile(operand.sourceTile);
        return source && cuts(*source, axis);
      });
    });
  }
  return std::nullopt;
}

/// Ends a communication for all its ends if this is the last of them to come.
bool Simulation::meet(SimulatedQueue &queue, uint32_t channel, Group group, int64_t ready) {
  auto [entry, first] = meetings.try_emplace({queue.step->phase.index(), queue.step->number, channel, group.number});
  Meeting &meeting = entry->second;
  if (queue.meeting)
    return false;
  queue.meeting = true;
  meeting.queues.push_back(&queue);
  meeting.ready = std::max(meeting.ready, ready);
  meeting.duration = std::max(meeting.duration, duration(queue));
  if (meeting.queues.size() != group.size)
    return false;
  Meeting complete = std::move(meeting);
  meetings.erase(entry);
  for (SimulatedQueue *other : complete.queues) {
    other->meeting = false;
    this->complete(*other, complete.ready, complete.ready + complete.duration);
    if (other != &queue)
      wake(*other);
  }
  return true;
}

void Simulation::complete(SimulatedQueue &queue, int64_t begin, int64_t end) {
  const Instruction &instruction = *nextCommand(queue).instruction;
  const EntryPhase &phase = queue.step->phase;
  if (queue.track && queue.track->records(phase.phase, phase.entry, queue.step->number))
    queue.track->record({&instruction, phase.phase, queue.step->number, begin, end, phase.entry});
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
  NullDeviceState &device = *queue.device;
  ++device.endedQueues;
  int64_t &end = device.stepEnd[step->countBefore(device.takesPart) % 2];
  end = std::max(end, queue.times.end);
  for (SimulatedQueue *neighbour : device.queues)
    wake(*neighbour);
  step->finish(queue.times, Error::success());
}

int64_t Simulation::duration(const SimulatedQueue &queue) const {
  if (!context.options.seconds)
    return 0;
  return std::llround(1e9 * context.options.seconds(queue.device->device, *nextCommand(queue).instruction));
}

} // namespace cleave::runtime
