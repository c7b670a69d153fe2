// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What choices cost.

#include "passes/planner/solver/ChoiceProblem.h"

namespace cleave::solver {

Choice evaluate(const ChoiceProblem &problem, const std::vector<unsigned> &choices) {
  Choice total;
  for (unsigned variable = 0; variable != problem.variables.size(); ++variable) {
    const Choice &choice = problem.domainOf(variable)[choices[variable]];
    total.seconds += choice.seconds;
    total.bytes += choice.bytes;
  }
  for (const Edge &edge : problem.edges)
    total.seconds += problem.pairs[edge.table].at(choices[edge.first], choices[edge.second]);
  return total;
}

} // namespace cleave::solver
