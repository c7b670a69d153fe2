// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A problem of choices made smaller without changing its optimum, whatever a byte is worth: choices that are forbidden
// or dominated are dropped, parallel edges joined, edges folded that only depend on one side.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_REDUCTION_H
#define CLEAVE_PASSES_PLANNER_SOLVER_REDUCTION_H

#include "passes/planner/solver/ChoiceProblem.h"

namespace cleave::solver {

/// Which choices are dropped.
enum class Drop {
  Dominated, ///< What cannot be chosen, or is never better than another choice.
  Forbidden  ///< What cannot be chosen: right whatever the choices themselves cost.
};

/// What is left. Choices of a variable are counted anew: choice `i` of `v` is the problem's `alive[v][i]`.
struct Reduction {
  /// By variable.
  std::vector<std::vector<unsigned>> alive;
  std::vector<std::vector<Choice>> costs;
  /// By variable and choice: the seconds of edges among `costs`.
  std::vector<std::vector<double>> folded;
  /// A variable with equal costs and its index among them; the first such variable stands for all.
  std::vector<unsigned> sameCosts;
  /// Joined tables over the remaining choices; edges between variables with several choices left, first < second, at
  /// most one for a pair.
  std::vector<PairTable> pairs;
  std::vector<Edge> edges;
  /// What variables with a single choice left cost, and the pairs of them.
  Choice constant;
  /// All choices of a variable are forbidden.
  bool isInfeasible = false;

  /// Whether the variable takes part: it is kept or has several choices left.
  std::vector<bool> isFree;
};

/// A choice is dropped when another one of its variable costs no more in seconds, bytes and every pair; of equal ones
/// the first stays. All choices of `kept` variables stay.
Reduction reduce(const ChoiceProblem &problem, const std::vector<unsigned> &kept = {}, Drop drop = Drop::Dominated);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_REDUCTION_H
