// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// HEFT, m-ETF and m-SCT.

#include "passes/planner/placement/ListScheduling.h"
#include "passes/planner/placement/Rank.h"

#include <algorithm>
#include <tuple>

namespace cleave::placement {
namespace {

Placement read(const PlacementProblem &problem, const TaskSchedule &schedule) {
  Placement placement;
  for (unsigned task = 0; task != problem.tasks.size(); ++task) {
    placement.devices.push_back(schedule.deviceOf(task));
    placement.spans.push_back(schedule.spanOf(task));
  }
  placement.seconds = schedule.makespan();
  return placement;
}

/// Picks pairs of ready tasks and devices one after the other.
class EarliestStart {
public:
  EarliestStart(const PlacementProblem &problem, const TaskGraph &graph, bool withFavourites)
      : problem(problem), graph(graph), schedule(problem, graph), ranks(meanRanks(problem, graph)),
        waitsFor(problem.tasks.size()), favourite(problem.tasks.size(), none()), reserved(problem.devices.size()) {
    if (withFavourites)
      favourite = favouriteChildren(problem, graph);
    for (const std::vector<unsigned> &readers : graph.readers)
      for (unsigned reader : readers)
        ++waitsFor[reader];
    for (unsigned task : graph.order)
      if (waitsFor[task] == 0)
        ready.push_back(task);
  }

  Placement run() {
    while (!ready.empty()) {
      auto [task, device] = pick();
      if (task == none())
        return {};
      place(task, device);
    }
    return read(problem, schedule);
  }

private:
  /// A device that waits for a favourite child.
  struct Reservation {
    unsigned child = 0;
    double until = 0;
  };

  unsigned none() const { return static_cast<unsigned>(problem.tasks.size()); }

  /// When a task may start on a device: not while that is kept for another one, unless it is done before.
  Span find(unsigned task, unsigned device) const {
    Span span = schedule.find(task, device);
    const Reservation &kept = reserved[device];
    if (kept.until > span.start && kept.child != task && isWaiting(kept.child)) {
      double wait = kept.until - span.start;
      span = {span.start + wait, span.finish + wait};
    }
    return span;
  }

  bool isWaiting(unsigned child) const {
    return waitsFor[child] != 0 || std::find(ready.begin(), ready.end(), child) != ready.end();
  }

  std::pair<unsigned, unsigned> pick() const {
    std::tuple<double, double, double> best{impossible, 0, 0};
    std::pair<unsigned, unsigned> picked{none(), 0};
    for (unsigned task : ready)
      for (unsigned device = 0; device != problem.devices.size(); ++device) {
        if (!schedule.fits(task, device))
          continue;
        Span span = find(task, device);
        std::tuple<double, double, double> key{span.start, -ranks[task], span.finish};
        if (picked.first == none() || key < best) {
          best = key;
          picked = {task, device};
        }
      }
    return picked;
  }

  void place(unsigned task, unsigned device) {
    schedule.place(task, device);
    ready.erase(std::find(ready.begin(), ready.end(), task));
    for (unsigned reader : graph.readers[task])
      if (--waitsFor[reader] == 0)
        ready.push_back(reader);
    unsigned child = favourite[task];
    if (child != none())
      reserved[device] = {child, schedule.spanOf(task).finish + secondsToOthers(task, child, device)};
  }

  /// What a child's input from a task takes to the nearest other device; 0 where there is none.
  double secondsToOthers(unsigned task, unsigned child, unsigned device) const {
    double least = impossible, bytes = 0;
    for (const TaskInput &input : graph.inputs[child])
      if (input.from == task)
        bytes += input.bytes;
    for (unsigned other = 0; other != problem.devices.size(); ++other)
      if (other != device)
        least = std::min(least, problem.transferSeconds(bytes, device, other));
    return problem.devices.size() == 1 ? 0 : least;
  }

  const PlacementProblem &problem;
  const TaskGraph &graph;
  TaskSchedule schedule;
  std::vector<double> ranks;
  std::vector<unsigned> waitsFor; // by task
  std::vector<unsigned> favourite;
  std::vector<Reservation> reserved; // by device
  std::vector<unsigned> ready;
};

} // namespace

Placement placeByEarliestFinish(const PlacementProblem &problem, const TaskGraph &graph) {
  TaskSchedule schedule(problem, graph);
  for (unsigned task : orderByRank(graph, meanRanks(problem, graph))) {
    double earliest = impossible;
    std::optional<unsigned> best;
    for (unsigned device = 0; device != problem.devices.size(); ++device) {
      if (!schedule.fits(task, device))
        continue;
      double finish = schedule.find(task, device).finish;
      if (!best || finish < earliest) {
        earliest = finish;
        best = device;
      }
    }
    if (!best)
      return {};
    schedule.place(task, *best);
  }
  return read(problem, schedule);
}

std::vector<unsigned> favouriteChildren(const PlacementProblem &problem, const TaskGraph &graph) {
  struct Candidate {
    double seconds;
    unsigned task, child;
  };
  std::vector<double> ranks = meanRanks(problem, graph);
  double latency = meanTransferSeconds(problem, 0), perByte = meanTransferSeconds(problem, 1) - latency;
  std::vector<Candidate> candidates;
  for (unsigned child : graph.order)
    for (const TaskInput &input : graph.inputs[child])
      candidates.push_back({latency + perByte * input.bytes + ranks[child], input.from, child});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate &a, const Candidate &b) { return a.seconds > b.seconds; });
  unsigned none = static_cast<unsigned>(problem.tasks.size());
  std::vector<unsigned> favourite(none, none);
  std::vector<bool> isFavourite(none);
  for (const Candidate &candidate : candidates)
    if (favourite[candidate.task] == none && !isFavourite[candidate.child]) {
      favourite[candidate.task] = candidate.child;
      isFavourite[candidate.child] = true;
    }
  return favourite;
}

Placement placeByEarliestStart(const PlacementProblem &problem, const TaskGraph &graph, bool withFavourites) {
  return EarliestStart(problem, graph, withFavourites).run();
}

} // namespace cleave::placement
