// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws domains first, then variables with some domains shared, then edges.

#include "GeneratedProblem.h"

#include <algorithm>

namespace cleave::solver {
namespace {

std::vector<Choice> randomDomain(Random &random, unsigned size, const ProblemShape &shape) {
  std::vector<Choice> domain;
  for (unsigned i = 0; i != size; ++i) {
    domain.push_back({static_cast<double>(random.below(shape.mostSeconds)), static_cast<double>(random.below(100))});
    if (random.percent(shape.forbiddenPercent) && random.percent(10))
      domain.back().seconds = forbidden;
  }
  return domain;
}

} // namespace

PairTable randomTable(Random &random, unsigned rows, unsigned columns, const ProblemShape &shape) {
  PairTable table{rows, columns, {}};
  // Some edges depend on one side alone, as those of values that are wanted in one layout do.
  bool isFlat = random.percent(10);
  for (unsigned row = 0; row != rows; ++row)
    for (unsigned column = 0; column != columns; ++column)
      table.seconds.push_back(isFlat && row != 0                       ? table.seconds[column]
                              : random.percent(shape.forbiddenPercent) ? forbidden
                                                                       : random.below(shape.mostSeconds));
  return table;
}

ChoiceProblem generateProblem(unsigned seed, const ProblemShape &shape) {
  Random random(seed);
  ChoiceProblem problem;
  for (unsigned variable = 0; variable != shape.numVariables; ++variable) {
    if (variable == 0 || random.percent(70))
      problem.domains.push_back(randomDomain(random, 1 + random.below(shape.mostChoices), shape));
    problem.variables.push_back(random.below(static_cast<unsigned>(problem.domains.size())));
  }
  for (unsigned first = 0; first != shape.numVariables; ++first)
    for (unsigned second = first + 1; second != shape.numVariables; ++second) {
      if (!random.percent(shape.edgePercent))
        continue;
      unsigned a = first, b = second;
      if (random.percent(50))
        std::swap(a, b);
      problem.pairs.push_back(randomTable(random, static_cast<unsigned>(problem.domainOf(a).size()),
                                          static_cast<unsigned>(problem.domainOf(b).size()), shape));
      unsigned table = static_cast<unsigned>(problem.pairs.size()) - 1;
      problem.edges.push_back({a, b, table});
      if (random.percent(10))
        problem.edges.push_back({a, b, table});
      else if (random.percent(10) && problem.variables[a] == problem.variables[b])
        problem.edges.push_back({b, a, table});
    }
  return problem;
}

ChoiceProblem generateChain(unsigned seed, unsigned numVariables, unsigned numChoices) {
  Random random(seed);
  ProblemShape shape;
  shape.forbiddenPercent = 5;
  ChoiceProblem problem;
  problem.domains.push_back(randomDomain(random, numChoices, shape));
  problem.pairs.push_back(randomTable(random, numChoices, numChoices, shape));
  problem.variables.assign(numVariables, 0);
  for (unsigned variable = 1; variable != numVariables; ++variable)
    problem.edges.push_back({variable - 1, variable, 0});
  return problem;
}

std::pair<double, double> rangeOfBytes(const ChoiceProblem &problem) {
  double least = 0, most = 0;
  for (unsigned variable = 0; variable != problem.variables.size(); ++variable) {
    auto [low, high] = std::minmax_element(problem.domainOf(variable).begin(), problem.domainOf(variable).end(),
                                           [](const Choice &a, const Choice &b) { return a.bytes < b.bytes; });
    least += low->bytes;
    most += high->bytes;
  }
  return {least, most};
}

} // namespace cleave::solver
