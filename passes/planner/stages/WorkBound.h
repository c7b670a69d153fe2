// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A lower bound of any plan for many equal layers that needs few of their options.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_WORKBOUND_H
#define CLEAVE_PASSES_PLANNER_STAGES_WORKBOUND_H

#include "passes/planner/stages/StageEdges.h"

namespace cleave::stages {

/// No plan takes less. With w the least device-seconds, and t the least seconds, that a stage spends on a layer of the
/// longest run of equal ones, r of them on D devices keep the longest of M microbatches' stages busy for w r / D, and all
/// stages together for t r: (M - 1) w r / D + t r. Lengths of stages are asked for in steps of a sixteenth, so that w and
/// t are at most so much too small, and the options asked for grow with the logarithm of r. Zero unless
/// `costs.growsWithLayers()`.
double workBound(const StageProblem &problem, StageCosts &costs, const std::vector<RunGroup> &groups,
                 const std::vector<unsigned> &groupOfRun);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_WORKBOUND_H
