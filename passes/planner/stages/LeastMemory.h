// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How much memory would do where it does not.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_LEASTMEMORY_H
#define CLEAVE_PASSES_PLANNER_STAGES_LEASTMEMORY_H

#include "passes/planner/stages/StageEdges.h"

namespace cleave::stages {

/// The least number of bytes that the fullest device of a path over the runs in `order` needs, where devices may stay
/// idle; infinity where there is no path that needs less than `toBeat`. `edges` were made ignoring memory. A number of
/// bytes is tried by a dynamic programme over (stages left, first cut) for the fewest devices, and the least one
/// bisected.
double leastBytes(const StageProblem &problem, const StageEdges &edges, const std::vector<unsigned> &order,
                  const std::vector<unsigned> &groupOfRun, double toBeat);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_LEASTMEMORY_H
