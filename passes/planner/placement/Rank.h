// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How urgent tasks are: upward ranks (Topcuoglu, Hariri, Wu 2002), the longest way from the beginning of a task to the
// end of all, in seconds.

#ifndef CLEAVE_PASSES_PLANNER_PLACEMENT_RANK_H
#define CLEAVE_PASSES_PLANNER_PLACEMENT_RANK_H

#include "passes/planner/placement/PlacementProblem.h"

namespace cleave::placement {

/// With the mean over the devices that can run a task, and the mean over all links.
std::vector<double> meanRanks(const PlacementProblem &problem, const TaskGraph &graph);

/// With the times on given devices.
std::vector<double> placedRanks(const PlacementProblem &problem, const TaskGraph &graph,
                                const std::vector<unsigned> &devices);

/// Decreasing ranks; a topological order.
std::vector<unsigned> orderByRank(const TaskGraph &graph, const std::vector<double> &ranks);

/// The mean over all pairs of different devices; 0 with a single one.
double meanTransferSeconds(const PlacementProblem &problem, double bytes);

} // namespace cleave::placement

#endif // CLEAVE_PASSES_PLANNER_PLACEMENT_RANK_H
