// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problems of choices solved by trying all: what other methods are compared with.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_EXHAUSTIVE_H
#define CLEAVE_PASSES_PLANNER_SOLVER_EXHAUSTIVE_H

#include "passes/planner/solver/ChoiceProblem.h"

namespace cleave::solver {

/// The first of the best choices in lexicographic order.
ChoiceSolution solveExhaustively(const ChoiceProblem &problem);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_EXHAUSTIVE_H
