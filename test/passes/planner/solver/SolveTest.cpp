// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory limits, bounds and gaps: elimination, integer programme and enumeration on the same problems.

#include "GeneratedProblem.h"

#include "passes/planner/solver/Elimination.h"
#include "passes/planner/solver/Solve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cleave::solver {
namespace {

/// Limits from below what fits to above what any choices need.
ChoiceProblem limitedProblem(unsigned seed, unsigned mostVariables = 8) {
  ProblemShape shape;
  shape.numVariables = 1 + seed % mostVariables;
  shape.edgePercent = 20 + 20 * (seed % 5);
  shape.forbiddenPercent = seed % 3 * 10;
  ChoiceProblem problem = generateProblem(seed, shape);
  auto [least, most] = rangeOfBytes(problem);
  problem.memoryLimit = std::floor(least + (most - least) * (static_cast<double>(seed / 3 % 10) - 1) / 8);
  return problem;
}

void expectConsistent(const ChoiceProblem &problem, const ChoiceSolution &solution) {
  ASSERT_TRUE(solution.isFeasible());
  Choice cost = evaluate(problem, solution.choices);
  EXPECT_EQ(cost.seconds, solution.seconds);
  EXPECT_EQ(cost.bytes, solution.bytes);
  EXPECT_LE(cost.bytes, problem.memoryLimit);
  EXPECT_LE(solution.lowerBound, solution.seconds);
}

// 500 problems with limits that bind and that don't: proven optimal, or infeasible by the right number of bytes.
TEST(Solve, EqualsEnumerationUnderMemoryLimits) {
  unsigned numBinding = 0, numInfeasible = 0;
  for (unsigned seed = 0; seed != 500; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = limitedProblem(seed);
    ChoiceSolution expected = solve(problem, {Method::Exhaustive}), solution = solve(problem);
    ASSERT_EQ(solution.isFeasible(), expected.isFeasible());
    if (!expected.isFeasible()) {
      ASSERT_EQ(solution.leastBytes, expected.leastBytes);
      ++numInfeasible;
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(expectConsistent(problem, solution));
    ASSERT_EQ(solution.seconds, expected.seconds);
    ASSERT_EQ(solution.lowerBound, expected.seconds);
    ChoiceProblem unlimited = problem;
    unlimited.memoryLimit = forbidden;
    numBinding += solve(unlimited).seconds < solution.seconds;
  }
  EXPECT_GT(numBinding, 100u);
  EXPECT_GT(numInfeasible, 50u);
}

// Costs that are no whole numbers, as real ones: proven and equal but for rounding.
TEST(Solve, ProvesRoundedSums) {
  for (unsigned seed = 0; seed != 100; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = limitedProblem(seed);
    for (std::vector<Choice> &domain : problem.domains)
      for (Choice &choice : domain)
        choice = {choice.seconds / 7e6, choice.bytes * 1e9 / 3};
    for (PairTable &table : problem.pairs)
      for (double &seconds : table.seconds)
        seconds /= 3e6;
    problem.memoryLimit *= 1e9 / 3;
    ChoiceSolution expected = solve(problem, {Method::Exhaustive}), solution = solve(problem);
    ASSERT_EQ(solution.isFeasible(), expected.isFeasible());
    if (!expected.isFeasible())
      continue;
    ASSERT_NEAR(solution.seconds, expected.seconds, 1e-12 * expected.seconds);
    ASSERT_EQ(solution.lowerBound, solution.seconds);
  }
}

// A knapsack: without edges, where multipliers alone leave a gap.
TEST(Solve, ClosesTheGapOfKnapsacks) {
  for (unsigned seed = 0; seed != 50; ++seed) {
    SCOPED_TRACE(seed);
    ProblemShape shape{.numVariables = 9, .mostChoices = 5, .edgePercent = 0, .forbiddenPercent = 0};
    ChoiceProblem problem = generateProblem(seed, shape);
    auto [least, most] = rangeOfBytes(problem);
    problem.memoryLimit = std::floor((least + most) / 2);
    ChoiceSolution expected = solve(problem, {Method::Exhaustive}), solution = solve(problem);
    ASSERT_EQ(solution.seconds, expected.seconds);
    ASSERT_EQ(solution.lowerBound, expected.seconds);
  }
}

// Forty equal layers have many equal solutions; labels that are alike are one.
TEST(Solve, ClosesTheGapOfEqualLayers) {
  ChoiceProblem problem = generateChain(8, 40, 6);
  auto [least, most] = rangeOfBytes(problem);
  for (double share : {0.2, 0.35, 0.5, 0.65}) {
    problem.memoryLimit = std::floor(least + (most - least) * share) + 0.5;
    ChoiceSolution solution = solve(problem);
    expectConsistent(problem, solution);
    EXPECT_EQ(solution.lowerBound, solution.seconds) << share;
  }
}

// Choices that nothing allows are not the limit's fault.
TEST(Solve, SaysThatTheLimitIsNotToBlame) {
  ChoiceProblem problem;
  problem.domains = {{{forbidden, 1}}, {{1, 1}}};
  problem.variables = {0, 1};
  problem.memoryLimit = 10;
  for (Method method : {Method::Elimination, Method::Exhaustive}) {
    ChoiceSolution solution = solve(problem, {method});
    EXPECT_FALSE(solution.isFeasible());
    EXPECT_EQ(solution.leastBytes, forbidden);
  }
}

// The integer programme is an independent oracle; its tolerance is 1e-6.
TEST(Solve, EqualsTheIntegerProgramme) {
  if (!hasIlp())
    GTEST_SKIP() << "built without CBC";
  for (unsigned seed = 0; seed != 120; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = limitedProblem(seed);
    ChoiceSolution expected = solve(problem, {Method::Ilp}), solution = solve(problem);
    ASSERT_EQ(solution.isFeasible(), expected.isFeasible());
    if (!expected.isFeasible()) {
      ASSERT_EQ(solution.leastBytes, expected.leastBytes);
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(expectConsistent(problem, expected));
    ASSERT_NEAR(solution.seconds, expected.seconds, 1e-6 * expected.seconds);
  }
}

// Whatever choices it starts from, the integer programme ends with the best ones, or with what it started from where
// that is close enough; its bound is never above the optimum.
TEST(Solve, StartsTheIntegerProgrammeFromKnownChoices) {
  if (!hasIlp())
    GTEST_SKIP() << "built without CBC";
  for (unsigned seed = 0; seed != 60; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = limitedProblem(seed);
    ChoiceSolution best = solve(problem, {Method::Exhaustive}), smallest = solve(onlyBytes(problem));
    if (!best.isFeasible())
      continue;
    for (const std::vector<unsigned> &known : {best.choices, smallest.choices}) {
      ChoiceSolution found = solve(problem, {.method = Method::Ilp, .known = known});
      ASSERT_NO_FATAL_FAILURE(expectConsistent(problem, found));
      ASSERT_NEAR(found.seconds, best.seconds, 1e-6 * best.seconds);
      ASSERT_LE(found.lowerBound, best.seconds * (1 + 1e-6));
      ChoiceSolution close = solve(problem, {.method = Method::Ilp, .relativeGap = 0.1, .known = known});
      ASSERT_LE(close.seconds, best.seconds / 0.9 * (1 + 1e-6));
      ASSERT_LE(close.lowerBound, best.seconds * (1 + 1e-6));
      ASSERT_GE(close.lowerBound, close.seconds * 0.9 * (1 - 1e-6));
    }
  }
}

// Choices that are not within the limit are no start.
TEST(Solve, StartsTheIntegerProgrammeFromNothingWorse) {
  if (!hasIlp())
    GTEST_SKIP() << "built without CBC";
  ChoiceProblem problem;
  problem.domains = {{{1, 10}, {5, 1}}};
  problem.variables = {0};
  problem.memoryLimit = 2;
  ChoiceSolution found = solve(problem, {.method = Method::Ilp, .known = {0}});
  EXPECT_EQ(found.choices, std::vector<unsigned>{1});
  EXPECT_EQ(found.seconds, 5);
}

// Larger than enumeration allows: 14 variables in a band, as operators of a layer are, under part of the memory.
TEST(Solve, EqualsTheIntegerProgrammeOnLayers) {
  if (!hasIlp())
    GTEST_SKIP() << "built without CBC";
  for (unsigned seed = 0; seed != 4; ++seed) {
    SCOPED_TRACE(seed);
    ChoiceProblem problem = generateChain(seed, 14, 4);
    for (unsigned i = 0; i + 2 < 14; i += 3)
      problem.edges.push_back({i, i + 2, 0});
    auto [least, most] = rangeOfBytes(problem);
    problem.memoryLimit = std::floor(least + (most - least) * (0.2 + 0.1 * seed));
    ChoiceSolution expected = solve(problem, {Method::Ilp}), solution = solve(problem);
    ASSERT_EQ(solution.isFeasible(), expected.isFeasible());
    if (!expected.isFeasible())
      continue;
    EXPECT_EQ(solution.lowerBound, solution.seconds);
    EXPECT_NEAR(solution.seconds, expected.seconds, 1e-6 * expected.seconds);
  }
}

// A clique is too wide for tables: what comes out is valid, and so is the bound.
TEST(Solve, BoundsWhatIsTooWide) {
  ProblemShape shape{.numVariables = 30, .mostChoices = 12, .edgePercent = 95, .forbiddenPercent = 0};
  for (unsigned seed = 0; seed != 3; ++seed) {
    ChoiceProblem problem = generateProblem(seed, shape);
    ASSERT_FALSE(Elimination::run(problem));
    auto [least, most] = rangeOfBytes(problem);
    for (double limit : {forbidden, std::floor((least + most) / 2)}) {
      problem.memoryLimit = limit;
      ChoiceSolution solution = solve(problem, {.relativeGap = 0.2});
      expectConsistent(problem, solution);
      EXPECT_GT(solution.lowerBound, 0);
    }
  }
}

// The same problem gives the same choices.
TEST(Solve, IsTheSameTwice) {
  for (unsigned seed = 0; seed != 60; ++seed) {
    ChoiceProblem problem = limitedProblem(seed);
    EXPECT_EQ(solve(problem).choices, solve(problem).choices);
  }
}

// A budget of no time at all still gives what the multiplier found.
TEST(Solve, KeepsToItsBudget) {
  ChoiceProblem problem = generateChain(9, 500, 12);
  auto [least, most] = rangeOfBytes(problem);
  problem.memoryLimit = std::floor((least * 2 + most) / 3);
  ChoiceSolution solution = solve(problem, {.timeBudget = 1e-9});
  expectConsistent(problem, solution);
}

// The product of the numbers of choices, shared domains counted for each variable.
TEST(Solve, CountsCombinations) { EXPECT_EQ(numCombinations(generateChain(1, 5, 4)), 1024); }

// Each rule of a problem, broken.
TEST(ChoiceProblem, NamesItsFault) {
  ChoiceProblem problem;
  problem.domains = {{{1, 2}, {forbidden, 2}}};
  problem.variables = {0, 0};
  problem.pairs = {{2, 2, {1, 2, 3, forbidden}}};
  problem.edges = {{0, 1, 0}};
  EXPECT_EQ(faultOf(problem), "");
  auto faultWith = [&](auto change) {
    ChoiceProblem changed = problem;
    change(changed);
    return faultOf(changed);
  };
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.domains.emplace_back(); }),
            "domain 1 expects at least one choice, got none");
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.domains[0][0].seconds = -1; }),
            "domain 0 expects seconds of at least 0 and finite bytes, got -1.000000 and 2.000000");
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.domains[0][1].bytes = forbidden; }),
            "domain 0 expects seconds of at least 0 and finite bytes, got inf and inf");
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.variables[1] = 4; }), "variable 1 expects a domain below 1, got 4");
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.pairs[0].seconds.pop_back(); }), "table 0 expects 4 entries, got 3");
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.pairs[0].seconds[2] = std::nan(""); }),
            "table 0 expects seconds of at least 0, got nan");
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.edges[0].second = 2; }),
            "edge 0 expects variables below 2, got 0 and 2");
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.edges[0].table = 1; }), "edge 0 expects a table below 1, got 1");
  EXPECT_EQ(faultWith([](ChoiceProblem &p) { p.domains[0].pop_back(); }), "edge 0 expects a table of 1 x 1, got 2 x 2");
}

// Names of methods are those of the command line.
TEST(Solve, KnowsMethodsByName) {
  for (Method method : {Method::Elimination, Method::Ilp, Method::Exhaustive})
    EXPECT_EQ(findMethod(methodName(method)), method);
  EXPECT_FALSE(findMethod("simplex"));
}

} // namespace
} // namespace cleave::solver
