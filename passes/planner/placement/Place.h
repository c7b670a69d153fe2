// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds placements: the best of several simple ones, improved by moving tasks.

#ifndef CLEAVE_PASSES_PLANNER_PLACEMENT_PLACE_H
#define CLEAVE_PASSES_PLANNER_PLACEMENT_PLACE_H

#include "passes/planner/placement/TaskSchedule.h"

#include <functional>

namespace cleave::placement {

struct PlaceOptions {
  /// Stop improving after that many seconds of processor time; 0: until no move helps, or after many.
  double timeBudget = 0;
  /// Called with the best seconds so far.
  std::function<void(double)> progress = {};
};

/// Why there is no placement, where there is none.
enum class PlaceFailure {
  None,
  Circle,       ///< Tasks depend on each other in a circle.
  NoDevice,     ///< No device can run some task, or it is larger than each that can.
  MemoryLimits, ///< None was found within the devices' memory.
};

struct PlaceResult {
  Placement placement;
  double lowerBound = 0; ///< seconds
  PlaceFailure failure = PlaceFailure::None;
};

/// Candidates are everything on one device, the tasks in order with the devices filled one after the other, HEFT, m-ETF
/// and m-SCT. The best one is improved by moving a task, or one with what it reads from, to another device, and by
/// swapping two, each judged by the schedule that results. Deterministic unless the time runs out.
PlaceResult place(const PlacementProblem &problem, const PlaceOptions &options = {});

} // namespace cleave::placement

#endif // CLEAVE_PASSES_PLANNER_PLACEMENT_PLACE_H
