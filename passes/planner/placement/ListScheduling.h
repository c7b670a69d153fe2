// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Placement by list scheduling: two classics, both mindful of memory.

#ifndef CLEAVE_PASSES_PLANNER_PLACEMENT_LISTSCHEDULING_H
#define CLEAVE_PASSES_PLANNER_PLACEMENT_LISTSCHEDULING_H

#include "passes/planner/placement/TaskSchedule.h"

namespace cleave::placement {

/// HEFT (Topcuoglu, Hariri, Wu 2002, "Performance-effective and low-complexity task scheduling for heterogeneous
/// computing"): tasks in decreasing order of their mean upward rank, each on the device on which it is done first. Not
/// feasible where a task finds no device with memory left.
Placement placeByEarliestFinish(const PlacementProblem &problem, const TaskGraph &graph);

/// m-SCT (Jeon et al. 2020, "Baechi: fast device placement of machine learning graphs"; after Hanen, Munier 1995): of
/// all ready tasks and devices the pair that can start first, where each task has at most one favourite child, and its
/// device is kept for that one until it could start elsewhere as well. Favourites are a matching of tasks and readers,
/// found greedily by the longest ways to the end that go over them. Without favourites this is m-ETF.
Placement placeByEarliestStart(const PlacementProblem &problem, const TaskGraph &graph, bool withFavourites);

/// By task: its favourite child, or the number of tasks.
std::vector<unsigned> favouriteChildren(const PlacementProblem &problem, const TaskGraph &graph);

} // namespace cleave::placement

#endif // CLEAVE_PASSES_PLANNER_PLACEMENT_LISTSCHEDULING_H
