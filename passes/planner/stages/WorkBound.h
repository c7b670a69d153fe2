// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A lower bound of any plan for many equal layers that needs few of their options.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_WORKBOUND_H
#define CLEAVE_PASSES_PLANNER_STAGES_WORKBOUND_H

#include "passes/planner/stages/StageEdges.h"

namespace cleave::stages {

/// No plan takes less, or it takes no less than `mostSeconds` times the microbatches. A stage on n of D devices that
/// adds f to the sum and has the load l puts n l into the D L device-seconds that the largest load L allows; so a step
/// takes at least the sum of f + l n / D, which is no less than the number of equal layers in the longest run of them
/// times the least that a stage adds for each of its layers. Lengths of stages are asked for in steps of a sixteenth,
/// so that the bound is at most so much too small, and the options asked for grow with the logarithm of the layers.
/// Zero unless `costs.growsWithLayers()`, and where runs are reserved: equal layers may be with those that belong
/// there.
double workBound(const StageProblem &problem, StageCosts &costs, const std::vector<RunGroup> &groups,
                 double mostSeconds);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_WORKBOUND_H
