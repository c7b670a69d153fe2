// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problems of choices drawn at random, the same ones for the same seed on every machine.

#ifndef CLEAVE_TEST_PASSES_PLANNER_SOLVER_GENERATEDPROBLEM_H
#define CLEAVE_TEST_PASSES_PLANNER_SOLVER_GENERATEDPROBLEM_H

#include "passes/planner/solver/ChoiceProblem.h"

#include <random>

namespace cleave::solver {

struct ProblemShape {
  unsigned numVariables = 5;
  unsigned mostChoices = 4;
  /// Of all pairs of variables, how many in a hundred have an edge.
  unsigned edgePercent = 50;
  /// Of all pairs of choices and, a tenth of it, of choices, how many in a hundred are forbidden.
  unsigned forbiddenPercent = 10;
  /// Costs are whole numbers below this, so that sums are exact.
  unsigned mostSeconds = 50;
};

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  /// A whole number below `end`.
  unsigned below(unsigned end) { return static_cast<unsigned>(engine() % end); }
  bool percent(unsigned share) { return below(100) < share; }

private:
  std::mt19937 engine;
};

PairTable randomTable(Random &random, unsigned rows, unsigned columns, const ProblemShape &shape);

/// Domains and tables of any sizes, some shared, some edges parallel or in either direction; no memory limit.
ChoiceProblem generateProblem(unsigned seed, const ProblemShape &shape);

/// A chain with the same table between neighbours.
ChoiceProblem generateChain(unsigned seed, unsigned numVariables, unsigned numChoices);

/// The least and the most bytes that choices can need, forbidden ones included.
std::pair<double, double> rangeOfBytes(const ChoiceProblem &problem);

} // namespace cleave::solver

#endif // CLEAVE_TEST_PASSES_PLANNER_SOLVER_GENERATEDPROBLEM_H
