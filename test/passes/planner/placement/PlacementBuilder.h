// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Task graphs for tests, and the best placements of small ones by trying all.

#ifndef CLEAVE_TEST_PASSES_PLANNER_PLACEMENT_PLACEMENTBUILDER_H
#define CLEAVE_TEST_PASSES_PLANNER_PLACEMENT_PLACEMENTBUILDER_H

#include "passes/planner/placement/TaskSchedule.h"

namespace cleave::placement {

/// Figure 2 of Topcuoglu, Hariri, Wu 2002: ten tasks on three processors, transfers as long as their bytes.
PlacementProblem topcuogluExample();

/// A random graph on devices of one or two kinds, with links of 0.5 s + bytes / 4.
PlacementProblem generatePlacement(unsigned seed, unsigned numTasks, unsigned numDevices);

/// The least seconds over all devices and all orders of tasks; `impossible` where memory never suffices. Exact for
/// Ports::Unlimited.
double bestByTryingAll(const PlacementProblem &problem);

/// Whether spans respect devices, dependencies and, under Ports::Unlimited, transfer times; and memory.
bool isValid(const PlacementProblem &problem, const Placement &placement);

} // namespace cleave::placement

#endif // CLEAVE_TEST_PASSES_PLANNER_PLACEMENT_PLACEMENTBUILDER_H
