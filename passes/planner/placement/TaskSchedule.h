// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When tasks run and values travel: a schedule that is built task by task, each put into the first gap of its device
// that is long enough (insertion: Topcuoglu, Hariri, Wu 2002).

#ifndef CLEAVE_PASSES_PLANNER_PLACEMENT_TASKSCHEDULE_H
#define CLEAVE_PASSES_PLANNER_PLACEMENT_TASKSCHEDULE_H

#include "passes/planner/placement/PlacementProblem.h"

namespace cleave::placement {

struct Span {
  double start = 0, finish = 0;
};

/// Disjoint spans of time in which something is busy.
class BusyTime {
public:
  /// The earliest start, not before `ready`, of `seconds` that are free.
  double findGap(double ready, double seconds) const;
  void add(const Span &span);
  double end() const { return spans.empty() ? 0 : spans.back().finish; }

private:
  std::vector<Span> spans; // ascending
};

class TaskSchedule {
public:
  TaskSchedule(const PlacementProblem &problem, const TaskGraph &graph);

  /// When a task would run on a device. All that it reads from has been placed.
  Span find(unsigned task, unsigned device) const;
  /// Puts a task there, with the transfers that it needs.
  void place(unsigned task, unsigned device);

  /// Whether the task may run there and its bytes still fit.
  bool fits(unsigned task, unsigned device) const;
  const Span &spanOf(unsigned task) const { return spans[task]; }
  unsigned deviceOf(unsigned task) const { return devices[task]; }
  double makespan() const { return latest; }

private:
  struct Transfer {
    unsigned value = 0, from = 0;
    Span span;
  };
  /// When all that a task reads is on a device; the transfers that this needs are appended.
  double readyAt(unsigned task, unsigned device, std::vector<Transfer> &transfers) const;
  double arrivalOf(unsigned value, unsigned device) const;

  const PlacementProblem &problem;
  const TaskGraph &graph;
  std::vector<BusyTime> computing, sending, receiving; // by device
  std::vector<double> bytes;                           // by device
  std::vector<double> arrivals;                        // by value and device; negative: not there
  std::vector<Span> spans;                             // by task
  std::vector<unsigned> devices;                       // by task
  double latest = 0;
};

/// A device and a time for each task.
struct Placement {
  std::vector<unsigned> devices; ///< By task; empty where there is none.
  std::vector<Span> spans;       ///< By task.
  double seconds = impossible;   ///< When the last one is done.

  bool isFeasible() const { return !devices.empty(); }
};

/// Places tasks on given devices in a given order, which is topological. Not feasible where a device cannot run a task
/// or lacks memory.
Placement schedule(const PlacementProblem &problem, const TaskGraph &graph, const std::vector<unsigned> &devices,
                   const std::vector<unsigned> &order);

/// The same in decreasing order of the longest way from a task to the end, transfers included.
Placement schedule(const PlacementProblem &problem, const TaskGraph &graph, const std::vector<unsigned> &devices);

} // namespace cleave::placement

#endif // CLEAVE_PASSES_PLANNER_PLACEMENT_TASKSCHEDULE_H
