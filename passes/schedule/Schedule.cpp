// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Order first, then memory, then the waits that follow from both.

#include "passes/schedule/Schedule.h"

#include "passes/schedule/ArenaPlanner.h"
#include "passes/schedule/Occupancy.h"

#include <algorithm>
#include <map>
#include <set>

namespace cleave::schedule {

/// The queue of a task, or of one end of a transfer, on `device`.
static Queue queueOf(const Task &task, unsigned device) {
  // Nothing else is sent from a device to itself.
  if (task.hostCopy != HostCopy::None)
    return {task.hostCopy == HostCopy::Offload ? QueueKind::Send : QueueKind::Receive, device};
  if (!task.target)
    return {task.collective ? QueueKind::Collective : QueueKind::Compute};
  return device == task.device ? Queue{QueueKind::Send, *task.target} : Queue{QueueKind::Receive, task.device};
}

std::vector<std::vector<Queue>> queuesOf(const Problem &problem) {
  std::vector<std::set<Queue>> queues(problem.numDevices, {Queue()});
  for (const Task &task : problem.tasks)
    for (unsigned device : {task.device, task.target.value_or(task.device)})
      queues[device].insert(queueOf(task, device));
  std::vector<std::vector<Queue>> lists;
  for (const std::set<Queue> &own : queues)
    lists.emplace_back(own.begin(), own.end());
  return lists;
}

namespace {

/// Gives the range of a value to the one whose bytes it takes over: from the first to the last of such values.
void joinInPlace(const Problem &problem, const std::vector<unsigned> &topological,
                 std::vector<std::optional<LiveRange>> &ranges) {
  for (auto task = topological.rbegin(); task != topological.rend(); ++task)
    for (unsigned value : problem.tasks[*task].writes)
      if (auto before = problem.values[value].inPlaceOf; before && ranges[value]) {
        ranges[*before]->last = std::max(ranges[*before]->last, ranges[value]->last);
        ranges[value].reset();
      }
}

/// What steps write has bytes of its own from the beginning: `prepare` of another entry may run when it is there.
void keepFromTheBeginning(const Problem &problem, std::vector<std::optional<LiveRange>> &ranges) {
  for (unsigned value = 0; value != ranges.size(); ++value)
    if (ranges[value] && problem.values[value].changes)
      ranges[value]->first = 0;
}

/// Gives what lasts from step to step in programs that take turns on an arena, or on a part of their host's memory,
/// places of its own at the beginning, shared values one place; returns where they end. These values have no range
/// afterwards.
uint64_t placeLasting(const Problem &problem, const std::vector<unsigned> &devices, bool inHost,
                      const std::vector<bool> &isLasting, std::vector<std::optional<LiveRange>> &ranges,
                      Schedule &schedule) {
  std::map<unsigned, uint64_t> shared;
  uint64_t end = 0;
  for (unsigned value = 0; value != ranges.size(); ++value) {
    const Value &known = problem.values[value];
    if (!ranges[value] || !isLasting[value] || known.inHost != inHost ||
        std::find(devices.begin(), devices.end(), known.device) == devices.end())
      continue;
    uint64_t offset = end;
    if (known.shared)
      offset = shared.try_emplace(*known.shared, end).first->second;
    if (offset == end)
      end += alignedSize(known.bytes);
    schedule.offsets[value] = offset;
    ranges[value].reset();
  }
  return end;
}

/// Where the last of a device's values that have places ends, in one of its memories.
uint64_t endOfValues(const Problem &problem, unsigned device, bool inHost, const Schedule &schedule) {
  uint64_t end = 0;
  for (unsigned value = 0; value != problem.values.size(); ++value)
    if (std::optional<uint64_t> offset = schedule.offsets[value];
        offset && problem.values[value].device == device && problem.values[value].inHost == inHost)
      end = std::max(end, *offset + alignedSize(problem.values[value].bytes));
  return end;
}

/// What there is of a device's values that still have ranges, in one of its memories.
struct LocalRanges {
  std::vector<LiveRange> ranges;
  std::vector<unsigned> values;

  LocalRanges(const Problem &problem, unsigned device, bool inHost, const std::vector<std::optional<LiveRange>> &all) {
    for (unsigned value = 0; value != all.size(); ++value)
      if (all[value] && problem.values[value].device == device && problem.values[value].inHost == inHost) {
        ranges.push_back(*all[value]);
        values.push_back(value);
      }
  }
};

/// The devices of every arena.
std::vector<std::vector<unsigned>> devicesByArena(const Problem &problem) {
  std::map<unsigned, std::vector<unsigned>> groups;
  std::vector<std::vector<unsigned>> list;
  for (unsigned device = 0; device != problem.numDevices; ++device) {
    if (problem.arenas.empty())
      list.push_back({device});
    else
      groups[problem.arenas[device]].push_back(device);
  }
  for (auto &[arena, devices] : groups)
    list.push_back(devices);
  return list;
}

void planArenas(const Problem &problem, const PhaseOrders &orders, const std::vector<unsigned> &topological,
                const std::vector<bool> &prepare, Schedule &schedule) {
  std::vector<std::optional<LiveRange>> ranges = liveRanges(problem, orders);
  joinInPlace(problem, topological, ranges);
  keepFromTheBeginning(problem, ranges);
  std::vector<ValueUses> uses = usesOf(problem);
  std::vector<bool> isLasting;
  for (const ValueUses &use : uses)
    isLasting.push_back(prepare[use.writer] && std::any_of(use.readers.begin(), use.readers.end(),
                                                           [&](unsigned reader) { return !prepare[reader]; }));
  for (const std::vector<unsigned> &devices : devicesByArena(problem))
    for (bool inHost : {false, true}) {
      uint64_t begin = devices.size() > 1 ? placeLasting(problem, devices, inHost, isLasting, ranges, schedule) : 0;
      for (unsigned device : devices) {
        LocalRanges local(problem, device, inHost, ranges);
        ArenaPlan plan = planArena(local.ranges);
        for (size_t i = 0; i != local.values.size(); ++i)
          schedule.offsets[local.values[i]] = begin + plan.offsets[i];
        // What only reads what lasts needs no more than reaches to the end of it.
        uint64_t lasting = local.values.empty() ? endOfValues(problem, device, inHost, schedule) : begin;
        DeviceSchedule &made = schedule.devices[device];
        (inHost ? made.hostBytes : made.arenaBytes) = lasting + plan.bytes;
        if (!inHost)
          made.liveBytes = lasting + largestLiveSet(local.ranges);
      }
    }
  for (unsigned task : topological)
    for (unsigned value : problem.tasks[task].writes)
      if (auto before = problem.values[value].inPlaceOf)
        schedule.offsets[value] = schedule.offsets[*before];
}

/// Turns the tasks of one phase into instructions.
class PhaseBuilder {
public:
  PhaseBuilder(const Problem &problem, const Schedule &schedule, unsigned firstOrder)
      : problem(problem), schedule(schedule), firstQueues(firstQueuesOf(schedule)), past(firstQueues.back()),
        arenas(problem.numDevices), hostArenas(problem.numDevices), usesSoFar(problem.values.size()),
        writers(problem.values.size()), order(firstOrder) {}

  /// Appends a task; `list` gives the list of a device.
  template <typename List> void append(unsigned index, List list) {
    const Task &task = problem.tasks[index];
    if (!task.target) {
      list(task.device).push_back(instruction(index, task.device, task.reads, task.writes));
    } else {
      list(task.device).push_back(instruction(index, task.device, task.reads, {}));
      list(*task.target).push_back(instruction(index, *task.target, {}, task.writes));
      // Of several devices, the one that got something from here need not be the one that gave something back.
      if (!problem.isSeveral(task.device) && !problem.isSeveral(*task.target))
        past.meet(numberOf(task, task.device), numberOf(task, *task.target));
    }
    ++order;
  }

private:
  /// By device: the number of its first queue among those of all devices; at last, how many there are.
  static std::vector<unsigned> firstQueuesOf(const Schedule &schedule) {
    std::vector<unsigned> first = {0};
    for (const DeviceSchedule &device : schedule.devices)
      first.push_back(first.back() + static_cast<unsigned>(device.queues.size()));
    return first;
  }

  /// The number of a task's queue on a device.
  unsigned numberOf(const Task &task, unsigned device) const {
    const std::vector<Queue> &queues = schedule.devices[device].queues;
    auto found = std::lower_bound(queues.begin(), queues.end(), queueOf(task, device));
    return firstQueues[device] + static_cast<unsigned>(found - queues.begin());
  }

  Instruction instruction(unsigned index, unsigned device, const std::vector<unsigned> &reads,
                          const std::vector<unsigned> &writes) {
    std::vector<TimelinePoint> needed;
    auto needUsesOf = [&](unsigned value) {
      needed.insert(needed.end(), usesSoFar[value].begin(), usesSoFar[value].end());
    };
    // What prepare wrote is there before the body begins.
    for (unsigned value : reads)
      if (writers[value])
        needed.push_back(*writers[value]);
    for (unsigned value : writes)
      if (auto before = problem.values[value].inPlaceOf)
        needUsesOf(*before);
    for (unsigned value : writes)
      for (unsigned previous : (problem.values[value].inHost ? hostArenas : arenas)[device].take(
               value, *schedule.offsets[value], problem.values[value].bytes))
        needUsesOf(previous);
    unsigned queue = numberOf(problem.tasks[index], device);
    Instruction result{index, queue - firstQueues[device], {}, order};
    for (TimelinePoint wait : past.append(queue, needed))
      result.waits.push_back({wait.queue - firstQueues[device], wait.value});
    TimelinePoint now = past.last(queue);
    for (unsigned value : reads)
      usesSoFar[value].push_back(now);
    for (unsigned value : writes) {
      usesSoFar[value].push_back(now);
      writers[value] = now;
    }
    return result;
  }

  const Problem &problem;
  const Schedule &schedule;
  std::vector<unsigned> firstQueues;
  HappensBefore past;
  std::vector<Occupancy> arenas, hostArenas;
  /// By value, the instructions of this phase that use it, in order.
  std::vector<std::vector<TimelinePoint>> usesSoFar;
  /// By value, the instruction of this phase that wrote it.
  std::vector<std::optional<TimelinePoint>> writers;
  unsigned order;
};

} // namespace

std::optional<Schedule> solve(const Problem &problem) {
  auto topological = topologicalOrder(problem);
  if (!topological)
    return std::nullopt;
  std::vector<bool> prepare = tasksOfPrepare(problem, *topological);
  PhaseOrders orders;
  orders.body = scheduleBody(problem, *topological, prepare);
  orders.prepare = orderPrepare(problem, orders.body.order, prepare);

  Schedule schedule;
  for (std::vector<Queue> &queues : queuesOf(problem))
    schedule.devices.push_back({std::move(queues), {}, {}});
  schedule.offsets.resize(problem.values.size());
  planArenas(problem, orders, *topological, prepare, schedule);

  PhaseBuilder prepareBuilder(problem, schedule, 0);
  for (unsigned task : orders.prepare)
    prepareBuilder.append(task, [&](unsigned device) -> auto & { return schedule.devices[device].prepare; });
  PhaseBuilder bodyBuilder(problem, schedule, static_cast<unsigned>(orders.prepare.size()));
  for (unsigned task : orders.body.order)
    bodyBuilder.append(task, [&](unsigned device) -> auto & { return schedule.devices[device].body; });
  return schedule;
}

} // namespace cleave::schedule
