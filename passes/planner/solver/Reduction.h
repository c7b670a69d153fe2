// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A problem of choices made smaller without changing its optimum, whatever a byte is worth: choices that are forbidden
// or dominated are dropped, parallel edges joined, edges folded that only depend on one side.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_REDUCTION_H
#define CLEAVE_PASSES_PLANNER_SOLVER_REDUCTION_H

#include "passes/planner/solver/ChoiceProblem.h"

#include <utility>

namespace cleave::solver {

/// Which choices are dropped.
enum class Drop {
  Dominated, ///< What cannot be chosen, or is never better than another choice.
  Forbidden  ///< What cannot be chosen: right whatever the choices themselves cost.
};

/// Where an edge's costs go that depend on one side alone: to that side's variable.
enum class Fold { None, Second, First };

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
  /// By pair: variables whose choices are its rows and columns, and the tables of the problem whose sum it is, flipped
  /// or not.
  struct PairSource {
    unsigned first = 0, second = 0;
    std::vector<std::pair<unsigned, bool>> tables;
    Fold fold = Fold::None;
  };
  std::vector<PairSource> sources;
  /// Variables with the pairs that were folded into their costs, in the order in which they add up.
  std::vector<std::pair<unsigned, unsigned>> foldings;
  /// What variables with a single choice left cost, and the pairs of them.
  Choice constant;
  /// All choices of a variable are forbidden.
  bool isInfeasible = false;

  /// Whether the variable takes part: it is kept or has several choices left.
  std::vector<bool> isFree;
};

/// The joined table of a source, of the reduced problem or another one with the same variables, edges and forbidden
/// choices.
PairTable joinedPair(const ChoiceProblem &problem, const Reduction &reduction, const Reduction::PairSource &source);

/// Which side alone a table depends on.
Fold foldOf(const PairTable &table);

/// Adds a folded pair to what a variable's choices cost.
void addFolded(const PairTable &table, Fold fold, std::vector<double> &costs);

/// A choice is dropped when another one of its variable costs no more in seconds, bytes and every pair; of equal ones
/// the first stays. All choices of `kept` variables stay.
Reduction reduce(const ChoiceProblem &problem, const std::vector<unsigned> &kept = {}, Drop drop = Drop::Dominated);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_REDUCTION_H
