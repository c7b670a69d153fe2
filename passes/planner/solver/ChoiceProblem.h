// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The problem inside a stage, free of any IR: one choice for each variable (a strategy of an operator, the layout of a
// value), so that the sum of what choices cost, and of what pairs of choices cost, is least under a limit of memory.
//
//   minimise    sum over v of seconds_v(x_v)  +  sum over edges (u, v) of seconds_uv(x_u, x_v)
//   subject to  sum over v of bytes_v(x_v) <= memoryLimit

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_CHOICEPROBLEM_H
#define CLEAVE_PASSES_PLANNER_SOLVER_CHOICEPROBLEM_H

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace cleave::solver {

/// Sums within this share of each other count as equal: they are rounded.
inline constexpr double rounding = 1e-12;
/// A cost that rules a choice or a pair of choices out.
inline constexpr double forbidden = std::numeric_limits<double>::infinity();

/// One of the values of a variable. Costs are not negative, and finite or `forbidden`.
struct Choice {
  double seconds = 0, bytes = 0;
};

/// What pairs of choices cost: `seconds[a * columns + b]` for choice `a` of an edge's first variable and `b` of its
/// second.
struct PairTable {
  unsigned rows = 0, columns = 0;
  std::vector<double> seconds;

  double at(unsigned a, unsigned b) const { return seconds[static_cast<size_t>(a) * columns + b]; }
};

/// Two variables, and an index into ChoiceProblem::pairs. There may be several edges between the same two.
struct Edge {
  unsigned first = 0, second = 0, table = 0;
};

/// Tables are shared: variables of equal layers refer to the same ones.
struct ChoiceProblem {
  /// What a variable can be; never empty.
  std::vector<std::vector<Choice>> domains;
  /// By variable: its index in `domains`.
  std::vector<unsigned> variables;
  std::vector<PairTable> pairs;
  std::vector<Edge> edges;
  double memoryLimit = std::numeric_limits<double>::infinity(); ///< bytes

  const std::vector<Choice> &domainOf(unsigned variable) const { return domains[variables[variable]]; }
};

/// What is wrong with a problem, as "edge 3 expects a table of 4 x 2, got 4 x 3"; empty where nothing is. All that
/// solves problems expects that there is nothing.
std::string faultOf(const ChoiceProblem &problem);

/// What was found.
struct ChoiceSolution {
  /// By variable: an index into its domain. Empty where no choices are within the limit (or not forbidden).
  std::vector<unsigned> choices;
  double seconds = forbidden, bytes = 0;
  /// No choices within the limit cost less. Equal to `seconds` where the solution is proven to be optimal.
  double lowerBound = 0;
  /// Where there is no solution: the least bytes that any choices need (or a lower bound of them, where the width was
  /// too large); infinite where the limit is not to blame, since all choices are forbidden.
  double leastBytes = 0;

  bool isFeasible() const { return !choices.empty(); }
};

/// The cost of choices: seconds and bytes.
Choice evaluate(const ChoiceProblem &problem, const std::vector<unsigned> &choices);

/// The problem with bytes in the place of seconds, without limit. What is forbidden stays forbidden.
ChoiceProblem onlyBytes(const ChoiceProblem &problem);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_CHOICEPROBLEM_H
