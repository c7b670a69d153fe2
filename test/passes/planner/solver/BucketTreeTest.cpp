// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables that are split, and the search with their bounds.

#include "GeneratedProblem.h"

#include "passes/planner/solver/LabelSearch.h"
#include "passes/planner/solver/Solve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cleave::solver {
namespace {

ChoiceProblem denseProblem(unsigned seed) {
  ChoiceProblem problem =
      generateProblem(seed, {.numVariables = 7, .mostChoices = 4, .edgePercent = 80, .forbiddenPercent = seed % 2 * 5});
  if (seed % 3 == 0) {
    auto [least, most] = rangeOfBytes(problem);
    problem.memoryLimit = std::floor((least + most) / 2);
  }
  return problem;
}

/// The problem's best choices, as the search finds them with tables of that many entries and labels.
LabelSearchResult search(const ChoiceProblem &problem, const std::shared_ptr<const BucketLayout> &layout,
                         size_t mostLabels) {
  BucketTree seconds(layout, {1, 0}), bytes(layout, {0, 1}), weighted(layout, {1, 0.25});
  return searchLabels(problem, {seconds, bytes, weighted, 0.25},
                      {.memoryLimit = problem.memoryLimit, .mostLabels = mostLabels});
}

// Split tables bound from below; the search with such bounds is exact, and with few labels it bounds as well.
TEST(BucketTree, BoundsWhereTablesAreSplit) {
  unsigned numSplit = 0, numBelow = 0;
  for (unsigned seed = 0; seed != 150; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = denseProblem(seed);
    double expected = solve(problem, {Method::Exhaustive}).seconds;
    std::shared_ptr<const BucketLayout> layout = makeBucketLayout(problem, {}, 60, TooLarge::Split);
    if (layout->reduction.isInfeasible || layout->isExact)
      continue;
    ++numSplit;
    double bound = BucketTree(layout, {1, 0}).least();
    EXPECT_LE(bound, expected);
    numBelow += bound < expected;
    LabelSearchResult all = search(problem, layout, 1u << 20), few = search(problem, layout, 3);
    EXPECT_EQ(all.lowerBound, expected);
    EXPECT_EQ(all.choices.empty(), std::isinf(expected));
    EXPECT_LE(few.lowerBound, expected);
    if (!all.choices.empty()) {
      EXPECT_EQ(evaluate(problem, originalChoices(layout->reduction, all.choices)).seconds, expected);
    }
  }
  EXPECT_GT(numSplit, 60u);
  EXPECT_GT(numBelow, 20u);
}

// Dropping and joining leave the optimum as it is, and leave less.
TEST(Reduction, DropsWhatIsDominated) {
  ChoiceProblem problem;
  // The second choice costs more than the first in everything; the third has fewer bytes; the fourth is forbidden.
  problem.domains = {{{1, 5}, {2, 6}, {9, 1}, {forbidden, 0}}, {{1, 0}, {2, 0}}};
  problem.variables = {0, 1};
  problem.pairs = {{4, 2, {0, 3, 0, 4, 1, 3, 0, 0}}, {2, 4, {1, 1, 2, 0, 1, 2, 0, 0}}};
  problem.edges = {{0, 1, 0}, {1, 0, 1}};
  Reduction reduction = reduce(problem);
  EXPECT_EQ(reduction.alive[0], (std::vector<unsigned>{0, 2}));
  ASSERT_EQ(reduction.edges.size(), 1u);
  EXPECT_EQ(reduction.pairs[reduction.edges[0].table].seconds, (std::vector<double>{1, 4, 3, 3}));
  EXPECT_EQ(reduce(problem, {0}).alive[0].size(), 4u);
}

// A variable that is left with one choice is no variable any more, and its edges are costs of the others.
TEST(Reduction, FoldsSingleChoices) {
  ChoiceProblem problem;
  problem.domains = {{{1, 2}}, {{0, 3}, {5, 0}}};
  problem.variables = {0, 1};
  problem.pairs = {{1, 2, {7, 4}}};
  problem.edges = {{0, 1, 0}};
  Reduction reduction = reduce(problem);
  EXPECT_TRUE(reduction.edges.empty());
  EXPECT_EQ(reduction.constant.seconds, 1);
  EXPECT_EQ(reduction.constant.bytes, 2);
  EXPECT_EQ(reduction.costs[1][0].seconds, 7);
  EXPECT_EQ(reduction.costs[1][1].seconds, 9);
}

} // namespace
} // namespace cleave::solver
