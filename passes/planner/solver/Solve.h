// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Solves problems of choices. Three ways, one answer: elimination (the default), an integer programme, and trying all.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_SOLVE_H
#define CLEAVE_PASSES_PLANNER_SOLVER_SOLVE_H

#include "passes/planner/solver/ChoiceProblem.h"

#include <optional>
#include <string_view>

namespace cleave::solver {

enum class Method {
  Elimination, ///< Exact by elimination, the memory limit by a multiplier; beam search where the width is too large.
  Ilp,         ///< An integer programme, by CBC.
  Exhaustive   ///< All choices, for small problems.
};

struct SolveOptions {
  Method method = Method::Elimination;
  /// Stop improving after that many seconds of processor time, with the bound that is known by then; 0: no limit.
  double timeBudget = 0;
  /// Stop improving where the bound is within that share of the solution.
  double relativeGap = 0;
  /// Choices that somebody knows, from which an integer programme starts: it looks for better ones alone, and has only
  /// to prove that there are none. Of no use where they are not within the limit.
  std::vector<unsigned> known = {};
};

/// "elimination", "ilp", "exhaustive".
std::string_view methodName(Method method);
std::optional<Method> findMethod(std::string_view name);
/// Whether this build has a solver of integer programmes.
bool hasIlp();

/// How many combinations of choices there are: Method::Exhaustive looks at all of them.
double numCombinations(const ChoiceProblem &problem);

/// Solves the problem; the same problem always gives the same choices unless the time runs out. The memory limit is
/// dualised (Everett 1963; Fisher 1981): the multiplier is bisected, the dual value is the lower bound, and what gap
/// remains is closed by label setting where that does not take too many labels. Where the width is too large for
/// tables, mini-buckets give the bound and a beam of labels the solution. Method::Exhaustive expects at most 1e8
/// combinations.
ChoiceSolution solve(const ChoiceProblem &problem, const SolveOptions &options = {});

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_SOLVE_H
