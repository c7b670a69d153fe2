// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gaps in busy times, and transfers that need one at both ends.

#include "passes/planner/placement/TaskSchedule.h"
#include "passes/planner/placement/Rank.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cleave::placement {

double BusyTime::findGap(double ready, double seconds) const {
  auto next = std::upper_bound(spans.begin(), spans.end(), ready,
                               [](double time, const Span &span) { return time < span.finish; });
  double start = ready;
  for (; next != spans.end() && next->start < start + seconds; ++next)
    start = std::max(start, next->finish);
  return start;
}

void BusyTime::add(const Span &span) {
  if (span.finish == span.start)
    return;
  auto at = std::upper_bound(spans.begin(), spans.end(), span.start,
                             [](double time, const Span &other) { return time < other.start; });
  spans.insert(at, span);
}

TaskSchedule::TaskSchedule(const PlacementProblem &problem, const TaskGraph &graph)
    : problem(problem), graph(graph), computing(problem.devices.size()), sending(problem.devices.size()),
      receiving(problem.devices.size()), bytes(problem.devices.size()),
      arrivals(graph.numValues * problem.devices.size(), -1), spans(problem.tasks.size()),
      devices(problem.tasks.size()) {}

double TaskSchedule::arrivalOf(unsigned value, unsigned device) const {
  return arrivals[value * problem.devices.size() + device];
}

double TaskSchedule::readyAt(unsigned task, unsigned device, std::vector<Transfer> &transfers) const {
  double ready = 0;
  std::vector<const TaskInput *> missing;
  for (const TaskInput &input : graph.inputs[task]) {
    if (devices[input.from] == device)
      ready = std::max(ready, spans[input.from].finish);
    else if (double arrival = arrivalOf(input.value, device); arrival >= 0)
      ready = std::max(ready, arrival);
    else
      missing.push_back(&input);
  }
  // First come, first sent.
  std::stable_sort(missing.begin(), missing.end(), [this](const TaskInput *a, const TaskInput *b) {
    return spans[a->from].finish < spans[b->from].finish;
  });
  BusyTime pending;
  for (const TaskInput *input : missing) {
    unsigned from = devices[input->from];
    double seconds = problem.transferSeconds(input->bytes, from, device), start = spans[input->from].finish;
    if (problem.ports == Ports::OneEachWay)
      for (double last = -1; last != start;) {
        last = start;
        for (const BusyTime *busy : {&sending[from], &receiving[device], &std::as_const(pending)})
          start = busy->findGap(start, seconds);
      }
    transfers.push_back({input->value, from, {start, start + seconds}});
    pending.add(transfers.back().span);
    ready = std::max(ready, start + seconds);
  }
  return ready;
}

Span TaskSchedule::find(unsigned task, unsigned device) const {
  std::vector<Transfer> transfers;
  double seconds = problem.secondsOn(task, device);
  double start = computing[device].findGap(readyAt(task, device, transfers), seconds);
  return {start, start + seconds};
}

void TaskSchedule::place(unsigned task, unsigned device) {
  std::vector<Transfer> transfers;
  double seconds = problem.secondsOn(task, device);
  double start = computing[device].findGap(readyAt(task, device, transfers), seconds);
  for (const Transfer &transfer : transfers) {
    arrivals[transfer.value * problem.devices.size() + device] = transfer.span.finish;
    if (problem.ports == Ports::Unlimited)
      continue;
    sending[transfer.from].add(transfer.span);
    receiving[device].add(transfer.span);
  }
  spans[task] = {start, start + seconds};
  devices[task] = device;
  computing[device].add(spans[task]);
  bytes[device] += problem.tasks[task].bytes;
  latest = std::max(latest, start + seconds);
}

bool TaskSchedule::fits(unsigned task, unsigned device) const {
  return !std::isinf(problem.secondsOn(task, device)) &&
         bytes[device] + problem.tasks[task].bytes <= problem.devices[device].memory;
}

Placement schedule(const PlacementProblem &problem, const TaskGraph &graph, const std::vector<unsigned> &devices,
                   const std::vector<unsigned> &order) {
  TaskSchedule schedule(problem, graph);
  for (unsigned task : order) {
    if (!schedule.fits(task, devices[task]))
      return {};
    schedule.place(task, devices[task]);
  }
  Placement placement;
  placement.devices = devices;
  for (unsigned task = 0; task != devices.size(); ++task)
    placement.spans.push_back(schedule.spanOf(task));
  placement.seconds = schedule.makespan();
  return placement;
}

Placement schedule(const PlacementProblem &problem, const TaskGraph &graph, const std::vector<unsigned> &devices) {
  return schedule(problem, graph, devices, orderByRank(graph, placedRanks(problem, graph, devices)));
}

} // namespace cleave::placement
