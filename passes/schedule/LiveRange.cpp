// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Live ranges over a device's two lists of instructions.

#include "passes/schedule/LiveRange.h"

#include <algorithm>
#include <limits>

namespace cleave::schedule {

uint64_t largestLiveSet(const std::vector<LiveRange> &ranges) {
  // Sorted by position, ends before beginnings: an end frees its bytes after its position.
  std::vector<std::pair<unsigned, int64_t>> changes;
  for (const LiveRange &range : ranges) {
    auto size = static_cast<int64_t>(alignedSize(range.bytes));
    changes.emplace_back(range.first, size);
    changes.emplace_back(range.last + 1, -size);
  }
  std::sort(changes.begin(), changes.end());
  int64_t live = 0, largest = 0;
  for (auto [position, change] : changes)
    largest = std::max(largest, live += change);
  return static_cast<uint64_t>(largest);
}

namespace {

constexpr unsigned nowhere = std::numeric_limits<unsigned>::max();

/// Where tasks stand among the instructions of their devices.
class Positions {
public:
  Positions(const Problem &problem, const PhaseOrders &orders)
      : tasks(problem.tasks), ready(orders.body.ready), finish(orders.body.finish), devices(problem.numDevices),
        onDevice(problem.tasks.size(), nowhere), onTarget(problem.tasks.size(), nowhere) {
    for (unsigned task : orders.prepare)
      append(task, -std::numeric_limits<double>::infinity());
    for (Device &device : devices)
      device.numPrepare = size(device);
    for (unsigned task : orders.body.order)
      append(task, orders.body.start[task]);
  }

  /// The task's position, or nowhere.
  unsigned of(unsigned task, unsigned device) const {
    return tasks[task].device == device ? onDevice[task] : onTarget[task];
  }
  bool isInPrepare(unsigned position, unsigned device) const { return position < devices[device].numPrepare; }
  unsigned last(unsigned device) const { return size(devices[device]) - 1; }
  /// The first position that is expected to start since the task is ready, up to the task's own.
  unsigned firstSinceReady(unsigned task, unsigned device) const {
    unsigned position = of(task, device), numPrepare = devices[device].numPrepare;
    if (isInPrepare(position, device))
      return position;
    const std::vector<double> &starts = devices[device].starts;
    auto since = std::lower_bound(starts.begin() + numPrepare, starts.begin() + position, ready[task]);
    return static_cast<unsigned>(since - starts.begin());
  }
  /// The last position that is expected to start before the task has finished.
  unsigned lastDuring(unsigned task, unsigned device) const {
    unsigned position = of(task, device);
    if (isInPrepare(position, device))
      return position;
    const std::vector<double> &starts = devices[device].starts;
    auto next = std::lower_bound(starts.begin() + position + 1, starts.end(), finish[task]);
    return static_cast<unsigned>(next - starts.begin()) - 1;
  }

private:
  struct Device {
    /// The expected start of each position, in ascending order; those of prepare are before all others.
    std::vector<double> starts;
    unsigned numPrepare = 0;
  };

  static unsigned size(const Device &device) { return static_cast<unsigned>(device.starts.size()); }

  void append(unsigned task, double start) {
    auto appendTo = [&](Device &device, unsigned &position) {
      position = size(device);
      device.starts.push_back(start);
    };
    appendTo(devices[tasks[task].device], onDevice[task]);
    if (tasks[task].target)
      appendTo(devices[*tasks[task].target], onTarget[task]);
  }

  const std::vector<Task> &tasks;
  const std::vector<double> &ready, &finish;
  std::vector<Device> devices;
  std::vector<unsigned> onDevice, onTarget;
};

} // namespace

std::vector<std::optional<LiveRange>> liveRanges(const Problem &problem, const PhaseOrders &orders) {
  Positions positions(problem, orders);
  std::vector<ValueUses> uses = usesOf(problem);
  std::vector<std::optional<LiveRange>> ranges(problem.values.size());
  for (unsigned value = 0; value != problem.values.size(); ++value) {
    unsigned device = problem.values[value].device;
    unsigned first = positions.of(uses[value].writer, device);
    if (first == nowhere)
      continue;
    LiveRange range{problem.values[value].bytes, first, positions.lastDuring(uses[value].writer, device)};
    if (const Task &writer = problem.tasks[uses[value].writer]; writer.target == device)
      range.first = positions.firstSinceReady(uses[value].writer, device);
    for (unsigned reader : uses[value].readers) {
      unsigned position = positions.of(reader, device);
      if (position == nowhere)
        continue;
      bool lasting = positions.isInPrepare(first, device) && !positions.isInPrepare(position, device);
      range.last = std::max(range.last, lasting ? positions.last(device) : positions.lastDuring(reader, device));
    }
    ranges[value] = range;
  }
  return ranges;
}

} // namespace cleave::schedule
