// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problems of choices as integer programmes.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_ILP_H
#define CLEAVE_PASSES_PLANNER_SOLVER_ILP_H

#include "passes/planner/solver/Solve.h"

namespace cleave::solver {

/// Solves with CBC: a 0-1 variable for each choice, a continuous one for each pair of choices on an edge, whose sums
/// over either side are the choices of the other. What is proven by then is CBC's own, whoever found the choices. Takes
/// all options but the method. Aborts where hasIlp() is false.
ChoiceSolution solveByIlp(const ChoiceProblem &problem, const SolveOptions &options);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_ILP_H
