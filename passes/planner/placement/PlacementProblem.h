// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole operators on single devices, free of any IR: tasks that depend on each other, devices of several kinds with
// memory, and links between them. What is wanted is a device for each task, so that all are done soon.

#ifndef CLEAVE_PASSES_PLANNER_PLACEMENT_PLACEMENTPROBLEM_H
#define CLEAVE_PASSES_PLANNER_PLACEMENT_PLACEMENTPROBLEM_H

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace cleave::placement {

/// Seconds of a task that a device cannot run.
inline constexpr double impossible = std::numeric_limits<double>::infinity();

struct Task {
  /// By kind of device; finite or `impossible`.
  std::vector<double> seconds;
  /// What it keeps on its device all the time: parameters, results.
  double bytes = 0;
  /// Somebody fixed where it runs.
  std::optional<unsigned> pinned = {};
};

/// `to` reads a result of `from`. A result that several tasks read on another device is sent there once.
struct TaskEdge {
  unsigned from = 0, to = 0;
  double bytes = 0;
  unsigned result = 0; ///< Which of the results of `from`; edges with the same one have the same bytes.
};

struct Device {
  unsigned kind = 0;
  double memory = std::numeric_limits<double>::infinity(); ///< bytes
};

/// From one device to another: a transfer takes latency + bytes / bandwidth.
struct Link {
  double latency = 0;                                         ///< seconds
  double bandwidth = std::numeric_limits<double>::infinity(); ///< bytes a second
};

/// What limits transfers.
enum class Ports {
  Unlimited, ///< Nothing: each begins when its value is there. The model of the literature on list scheduling.
  OneEachWay ///< A device sends one value at a time and receives one at a time, as the runtime's queues do.
};

struct PlacementProblem {
  std::vector<Task> tasks;
  std::vector<TaskEdge> edges;
  std::vector<Device> devices;
  /// At `from * devices.size() + to`; those from a device to itself are not looked at.
  std::vector<Link> links;
  Ports ports = Ports::OneEachWay;

  /// Of a task on a device; `impossible` where it is pinned elsewhere.
  double secondsOn(unsigned task, unsigned device) const;
  double transferSeconds(double bytes, unsigned from, unsigned to) const;
};

/// A value that tasks read.
struct TaskInput {
  unsigned value = 0; ///< Distinct for each result of each task.
  unsigned from = 0;
  double bytes = 0;
};

/// The edges of a problem by task.
struct TaskGraph {
  /// Nothing where tasks depend on each other in a circle.
  static std::optional<TaskGraph> make(const PlacementProblem &problem);

  std::vector<std::vector<TaskInput>> inputs; ///< Distinct values.
  std::vector<std::vector<unsigned>> readers; ///< Of any result; distinct tasks.
  unsigned numValues = 0;
  std::vector<unsigned> order; ///< Topological; of several possible ones, that closest to the order of indices.
};

/// No placement is faster: the longest path of least task times, and the work of all tasks, and of those pinned to one
/// device, over the devices that it can be spread over.
double lowerBound(const PlacementProblem &problem, const TaskGraph &graph);

} // namespace cleave::placement

#endif // CLEAVE_PASSES_PLANNER_PLACEMENT_PLACEMENTPROBLEM_H
