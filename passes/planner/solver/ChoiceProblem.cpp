// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What choices cost.

#include "passes/planner/solver/ChoiceProblem.h"

#include <cmath>

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

ChoiceProblem onlyBytes(const ChoiceProblem &problem) {
  ChoiceProblem result = problem;
  result.memoryLimit = std::numeric_limits<double>::infinity();
  for (std::vector<Choice> &domain : result.domains)
    for (Choice &choice : domain)
      choice = {std::isinf(choice.seconds) ? forbidden : choice.bytes, 0};
  for (PairTable &table : result.pairs)
    for (double &seconds : table.seconds)
      seconds = std::isinf(seconds) ? forbidden : 0;
  return result;
}

} // namespace cleave::solver
