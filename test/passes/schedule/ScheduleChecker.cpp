// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks order, waits and memory of a schedule the slow and plain way.

#include "ScheduleChecker.h"

#include <algorithm>
#include <map>
#include <set>

namespace cleave::schedule {
namespace {

/// One phase: events are tasks. An edge leads from each event to those that cannot begin before it is over.
class Phase {
public:
  Phase(const Problem &problem, const Schedule &schedule, std::vector<const std::vector<Instruction> *> lists)
      : problem(problem), schedule(schedule), lists(std::move(lists)) {
    for (unsigned device = 0; device != this->lists.size(); ++device) {
      std::vector<std::vector<unsigned>> queues(schedule.devices[device].queues.size());
      for (const Instruction &instruction : *this->lists[device])
        queues[instruction.queue].push_back(instruction.task);
      tasksOfQueues.push_back(queues);
    }
    connect(nullptr);
  }

  std::string findFault() {
    std::map<unsigned, unsigned> orders;
    for (unsigned device = 0; device != lists.size(); ++device)
      for (size_t i = 0; i != lists[device]->size(); ++i) {
        const Instruction &instruction = (*lists[device])[i];
        if (i > 0 && instruction.order <= (*lists[device])[i - 1].order)
          return "a list is not in global order";
        if (orders.try_emplace(instruction.task, instruction.order).first->second != instruction.order)
          return "the ends of a transfer have different orders";
        std::string fault = checkInstruction(device, instruction);
        if (!fault.empty())
          return fault;
      }
    for (unsigned task = 0; task != problem.tasks.size(); ++task)
      if (before[task].count(task))
        return "deadlock at task " + std::to_string(task);
    return checkWaitsAreNeeded();
  }

  bool runs(unsigned task) const { return count(task) > 0; }
  /// How many ends of a task there are.
  unsigned count(unsigned task) const {
    unsigned found = 0;
    for (const auto *list : lists)
      found += std::count_if(list->begin(), list->end(), [&](const Instruction &i) { return i.task == task; });
    return found;
  }
  bool precedes(unsigned earlier, unsigned later) const { return before[later].count(earlier) > 0; }

private:
  std::string checkInstruction(unsigned device, const Instruction &instruction) const {
    const Task &task = problem.tasks[instruction.task];
    bool isSend = task.target && task.device == device;
    QueueKind local = task.collective ? QueueKind::Collective : QueueKind::Compute;
    Queue expected = {local, 0};
    if (task.target)
      expected = isSend ? Queue{QueueKind::Send, *task.target} : Queue{QueueKind::Receive, task.device};
    if (task.hostCopy != HostCopy::None)
      expected = {task.hostCopy == HostCopy::Offload ? QueueKind::Send : QueueKind::Receive, device};
    if (schedule.devices[device].queues[instruction.queue] != expected)
      return "a task is on the wrong queue";
    for (TimelinePoint wait : instruction.waits) {
      const std::vector<unsigned> &queue = tasksOfQueues[device][wait.queue];
      if (wait.queue == instruction.queue || wait.value == 0 || wait.value > queue.size())
        return "a wait is for its own queue or never comes";
      for (const Instruction &other : *lists[device])
        if (other.task == queue[wait.value - 1] && other.order >= instruction.order)
          return "a wait points forward";
    }
    return {};
  }

  /// The closure of everything but the wait at `left`.
  void connect(const TimelinePoint *left) {
    std::vector<std::set<unsigned>> direct(problem.tasks.size());
    for (unsigned device = 0; device != lists.size(); ++device) {
      for (const auto &queue : tasksOfQueues[device])
        for (size_t i = 1; i < queue.size(); ++i)
          direct[queue[i]].insert(queue[i - 1]);
      for (const Instruction &instruction : *lists[device])
        for (const TimelinePoint &wait : instruction.waits)
          if (&wait != left)
            direct[instruction.task].insert(tasksOfQueues[device][wait.queue][wait.value - 1]);
    }
    before = direct;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto &earlier : before) {
        size_t size = earlier.size();
        for (unsigned task : std::set<unsigned>(earlier))
          earlier.insert(before[task].begin(), before[task].end());
        changed |= earlier.size() != size;
      }
    }
  }

  /// Without a wait, the instruction's end must be able to come before what it waits for. The other end of a transfer
  /// may wait for that too: an end does not count on it.
  std::string checkWaitsAreNeeded() {
    for (unsigned device = 0; device != lists.size(); ++device)
      for (const Instruction &instruction : *lists[device])
        for (const TimelinePoint &wait : instruction.waits) {
          if (problem.tasks[instruction.task].target)
            continue;
          connect(&wait);
          if (precedes(tasksOfQueues[device][wait.queue][wait.value - 1], instruction.task))
            return "a wait follows from others";
        }
    connect(nullptr);
    return {};
  }

  const Problem &problem;
  const Schedule &schedule;
  std::vector<const std::vector<Instruction> *> lists;
  std::vector<std::vector<std::vector<unsigned>>> tasksOfQueues;
  std::vector<std::set<unsigned>> before;
};

class Checker {
public:
  Checker(const Problem &problem, const Schedule &schedule)
      : problem(problem), schedule(schedule), uses(usesOf(problem)),
        prepare(problem, schedule, lists(&DeviceSchedule::prepare)),
        body(problem, schedule, lists(&DeviceSchedule::body)) {}

  std::string run() {
    for (Phase *phase : {&prepare, &body})
      if (std::string fault = phase->findFault(); !fault.empty())
        return fault;
    for (unsigned task = 0; task != problem.tasks.size(); ++task)
      if (std::string fault = checkTask(task); !fault.empty())
        return fault + " at task " + std::to_string(task);
    for (unsigned value = 0; value != problem.values.size(); ++value)
      if (std::string fault = checkValue(value); !fault.empty())
        return fault + " at value " + std::to_string(value);
    return {};
  }

private:
  std::vector<const std::vector<Instruction> *> lists(std::vector<Instruction> DeviceSchedule::*list) const {
    std::vector<const std::vector<Instruction> *> result;
    result.reserve(schedule.devices.size());
    for (const DeviceSchedule &device : schedule.devices)
      result.push_back(&(device.*list));
    return result;
  }

  std::string checkTask(unsigned task) const {
    unsigned ends = problem.tasks[task].target ? 2 : 1;
    unsigned inPrepare = prepare.count(task), inBody = body.count(task);
    if (inPrepare + inBody != ends && (inPrepare + inBody != 0 || problem.tasks[task].everyStep))
      return "a task does not run once";
    if (inPrepare > 0 && problem.tasks[task].everyStep)
      return "a task of every step runs once only";
    for (unsigned value : problem.tasks[task].reads) {
      unsigned writer = uses[value].writer;
      if (inPrepare > 0 && !prepare.precedes(writer, task))
        return "prepare reads what is not written";
      if (inBody > 0 && !prepare.runs(writer) && !body.precedes(writer, task))
        return "the body reads what is not written";
    }
    return {};
  }

  bool isLasting(unsigned value) const {
    return prepare.runs(uses[value].writer) && std::any_of(uses[value].readers.begin(), uses[value].readers.end(),
                                                           [&](unsigned reader) { return body.runs(reader); });
  }

  /// Whether all uses of `left` are over before `right` is written, in every step.
  bool isOver(unsigned left, unsigned right) const {
    unsigned writer = uses[right].writer;
    if (isLasting(left))
      return false;
    const Phase &phase = prepare.runs(writer) ? prepare : body;
    std::vector<unsigned> all = uses[left].readers;
    all.push_back(uses[left].writer);
    if (prepare.runs(uses[left].writer) && body.runs(writer))
      return true;
    return std::all_of(all.begin(), all.end(),
                       [&](unsigned task) { return !phase.runs(task) || phase.precedes(task, writer); }) &&
           phase.runs(uses[left].writer);
  }

  std::string checkValue(unsigned value) const {
    bool isWritten = prepare.runs(uses[value].writer) || body.runs(uses[value].writer);
    if (isWritten != schedule.offsets[value].has_value())
      return "a value has no place, or a place for nothing";
    if (!isWritten || problem.values[value].bytes == 0)
      return {};
    uint64_t begin = *schedule.offsets[value], end = begin + problem.values[value].bytes;
    const DeviceSchedule &device = schedule.devices[problem.values[value].device];
    if (begin % 64 != 0 || end > (problem.values[value].inHost ? device.hostBytes : device.arenaBytes))
      return "a place is outside the arena or not aligned";
    if (auto before = problem.values[value].inPlaceOf; before && schedule.offsets[*before] != schedule.offsets[value])
      return "a value is not in the place of the one that it takes over";
    for (unsigned other = 0; other != value; ++other) {
      if (problem.values[other].device != problem.values[value].device || !schedule.offsets[other] ||
          problem.values[other].inHost != problem.values[value].inHost)
        continue;
      // The task that writes the one reads the other last.
      if (problem.values[value].inPlaceOf == other)
        continue;
      uint64_t otherBegin = *schedule.offsets[other], otherEnd = otherBegin + problem.values[other].bytes;
      if (otherBegin < end && begin < otherEnd && !isOver(value, other) && !isOver(other, value))
        return "two values share bytes at the same time: " + std::to_string(other);
    }
    return {};
  }

  const Problem &problem;
  const Schedule &schedule;
  std::vector<ValueUses> uses;
  Phase prepare, body;
};

} // namespace

std::string findFault(const Problem &problem, const Schedule &schedule) { return Checker(problem, schedule).run(); }

double makespan(const Problem &problem, const Schedule &schedule) {
  // In the global order, each event begins when its queues are free and its waits are met.
  std::map<unsigned, std::vector<std::pair<unsigned, const Instruction *>>> events;
  for (unsigned device = 0; device != schedule.devices.size(); ++device)
    for (const Instruction &instruction : schedule.devices[device].body)
      events[instruction.order].emplace_back(device, &instruction);
  std::vector<std::vector<std::vector<double>>> ends;
  for (const DeviceSchedule &device : schedule.devices)
    ends.emplace_back(device.queues.size(), std::vector<double>{0.0});
  double last = 0;
  for (const auto &[order, parts] : events) {
    double start = 0;
    for (auto [device, instruction] : parts) {
      start = std::max(start, ends[device][instruction->queue].back());
      for (TimelinePoint wait : instruction->waits)
        start = std::max(start, ends[device][wait.queue][wait.value]);
    }
    double end = start + problem.tasks[parts.front().second->task].seconds;
    for (auto [device, instruction] : parts)
      ends[device][instruction->queue].push_back(end);
    last = std::max(last, end);
  }
  return last;
}

} // namespace cleave::schedule
