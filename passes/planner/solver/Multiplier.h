// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The price of a byte at which a memory limit is kept best (Everett 1963, "Generalized Lagrange multiplier method";
// Fisher 1981, "The Lagrangian relaxation method").

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_MULTIPLIER_H
#define CLEAVE_PASSES_PLANNER_SOLVER_MULTIPLIER_H

#include "passes/planner/solver/ChoiceProblem.h"

#include <functional>

namespace cleave::solver {

/// What is cheapest at some price of a byte: its cost, and the least seconds + price * bytes, or a lower bound of it.
struct Priced {
  Choice cost;
  double least = 0;
};

struct Multiplier {
  double secondsPerByte = 0;
  /// Nothing within the limit takes less seconds; 0 where no price says more.
  double lowerBound = 0;
};

/// The multiplier with the best bound. `solveAt` solves at a price; `over` is what is cheapest at price 0, with more
/// bytes than the limit, and `under` anything within it. A price at which both cost the same is the best one if nothing
/// costs less at it; else what costs less takes the place of one of them. `isDone` is asked before each step.
Multiplier findMultiplier(const std::function<Priced(double secondsPerByte)> &solveAt, Choice over, Choice under,
                          double memoryLimit, const std::function<bool()> &isDone);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_MULTIPLIER_H
