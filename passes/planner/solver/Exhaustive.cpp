// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts through all choices, the last variable fastest. Sums are kept for each prefix.

#include "passes/planner/solver/Exhaustive.h"

#include <algorithm>
#include <cmath>

namespace cleave::solver {
namespace {

class Enumeration {
public:
  explicit Enumeration(const ChoiceProblem &problem)
      : problem(problem), edgesUpTo(problem.variables.size()), choices(problem.variables.size()) {
    for (const Edge &edge : problem.edges)
      edgesUpTo[std::max(edge.first, edge.second)].push_back(edge);
    best.leastBytes = forbidden;
  }

  ChoiceSolution run() {
    enumerate(0, {});
    if (best.isFeasible()) {
      best.seconds = evaluate(problem, best.choices).seconds;
      best.leastBytes = 0;
    }
    best.lowerBound = best.seconds;
    return best;
  }

private:
  void enumerate(unsigned variable, Choice sum) {
    if (variable == choices.size())
      return take(sum);
    const std::vector<Choice> &domain = problem.domainOf(variable);
    for (choices[variable] = 0; choices[variable] != domain.size(); ++choices[variable]) {
      Choice longer = {sum.seconds + domain[choices[variable]].seconds, sum.bytes + domain[choices[variable]].bytes};
      for (const Edge &edge : edgesUpTo[variable])
        longer.seconds += problem.pairs[edge.table].at(choices[edge.first], choices[edge.second]);
      if (!std::isinf(longer.seconds))
        enumerate(variable + 1, longer);
    }
  }

  void take(const Choice &sum) {
    best.leastBytes = std::min(best.leastBytes, sum.bytes);
    if (sum.bytes > problem.memoryLimit || sum.seconds >= best.seconds)
      return;
    best.choices = choices;
    best.seconds = sum.seconds;
    best.bytes = sum.bytes;
  }

  const ChoiceProblem &problem;
  /// By variable: the edges to variables before it, and to itself.
  std::vector<std::vector<Edge>> edgesUpTo;
  std::vector<unsigned> choices;
  ChoiceSolution best;
};

} // namespace

ChoiceSolution solveExhaustively(const ChoiceProblem &problem) { return Enumeration(problem).run(); }

} // namespace cleave::solver
