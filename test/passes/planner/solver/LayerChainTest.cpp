// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chains of equal layers against the same problems written out.

#include "GeneratedProblem.h"

#include "passes/planner/solver/LayeredProblem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

namespace cleave::solver {
namespace {

/// Layers of 2 to 6 variables, whose first and last have the same domain.
ChainProblem generateLayer(unsigned seed, uint64_t count) {
  ProblemShape shape;
  shape.numVariables = 2 + seed % 5;
  shape.edgePercent = 70;
  shape.forbiddenPercent = seed % 3 * 8;
  ChainProblem chain{generateProblem(seed, shape), 0, shape.numVariables - 1, count};
  ChoiceProblem &layer = chain.layer;
  // Edges at the exit have other sizes now.
  layer.variables[chain.exit] = layer.variables[chain.entry];
  Random random(seed);
  layer.pairs.clear();
  for (Edge &edge : layer.edges) {
    edge.table = static_cast<unsigned>(layer.pairs.size());
    layer.pairs.push_back(randomTable(random, static_cast<unsigned>(layer.domainOf(edge.first).size()),
                                      static_cast<unsigned>(layer.domainOf(edge.second).size()), shape));
  }
  EXPECT_EQ(faultOf(layer), "");
  return chain;
}

/// An embedding before the chain and a head behind it, joined by a long edge.
LayeredProblem generateLayered(unsigned seed, uint64_t count) {
  LayeredProblem problem;
  Random random(seed + 1000);
  ProblemShape shape;
  shape.forbiddenPercent = 0;
  ChainProblem chain = generateLayer(seed, count);
  unsigned size = static_cast<unsigned>(chain.layer.domainOf(chain.entry).size());
  problem.around.domains.push_back(chain.layer.domainOf(chain.entry));
  problem.around.domains.emplace_back(size);
  problem.around.domains.push_back({{3, 7}, {9, 1}, {5, 5}});
  problem.around.variables = {0, 1, 2};
  problem.around.pairs = {randomTable(random, size, 3, shape), randomTable(random, size, 3, shape)};
  problem.around.edges = {{1, 2, 0}, {0, 2, 1}};
  problem.chains.push_back({0, 1, std::move(chain)});
  return problem;
}

// Every entry is what elimination finds for the layers written out, and the choices attain it.
TEST(LayerChain, EqualsLayersWrittenOut) {
  for (unsigned seed = 0; seed != 60; ++seed) {
    uint64_t count = 1 + seed % 13;
    ChainProblem chain = generateLayer(seed, count);
    unsigned size = static_cast<unsigned>(chain.layer.domainOf(chain.entry).size());
    LayeredProblem alone;
    alone.around.domains = {std::vector<Choice>(size)};
    alone.around.variables = {0, 0};
    alone.chains = {{0, 1, chain}};
    std::optional<LayerChain> powers = LayerChain::run(chain, {.secondsPerByte = 0.5});
    std::optional<Elimination> expected = Elimination::run(writeOut(alone).problem, {0, 1}, {.secondsPerByte = 0.5});
    ASSERT_EQ(powers->values(), expected->values()) << "seed " << seed;
    for (unsigned entry = 0; entry != size; ++entry)
      for (unsigned exit = 0; exit != size; ++exit) {
        double value = powers->values()[entry * size + exit];
        LayerChain::Choices choices = powers->choicesAt(entry, exit);
        ASSERT_EQ(choices.layers.empty(), std::isinf(value));
        if (std::isinf(value))
          continue;
        ASSERT_EQ(choices.layers.size(), count);
        EXPECT_EQ(choices.distinct[choices.layers.front()][chain.entry], entry);
        EXPECT_EQ(choices.distinct[choices.layers.back()][chain.exit], exit);
        for (uint64_t layer = 1; layer != count; ++layer)
          EXPECT_EQ(choices.distinct[choices.layers[layer - 1]][chain.exit],
                    choices.distinct[choices.layers[layer]][chain.entry]);
        Choice cost = evaluate(alone, {entry, exit}, {choices});
        EXPECT_EQ(cost.seconds + 0.5 * cost.bytes, value) << "seed " << seed;
      }
  }
}

// Memory limits that bind and that don't: the same optimum as that of the problem written out.
TEST(LayeredProblem, EqualsTheProblemWrittenOut) {
  unsigned numFeasible = 0;
  for (unsigned seed = 0; seed != 100; ++seed) {
    SCOPED_TRACE(seed);
    LayeredProblem problem = generateLayered(seed, 1 + seed % 9);
    auto [least, most] = rangeOfBytes(writeOut(problem).problem);
    problem.around.memoryLimit = std::floor(least + (most - least) * (seed / 3 % 10) / 8);
    ChoiceSolution expected = solve(writeOut(problem).problem);
    LayeredSolution found = solve(problem);
    ASSERT_EQ(found.solution.isFeasible(), expected.isFeasible());
    ASSERT_EQ(found.solution.leastBytes, expected.leastBytes);
    if (!expected.isFeasible())
      continue;
    ++numFeasible;
    EXPECT_EQ(found.solution.seconds, expected.seconds);
    EXPECT_EQ(found.solution.lowerBound, expected.lowerBound);
    Choice cost = evaluate(problem, found.solution.choices, found.chains);
    EXPECT_EQ(cost.seconds, found.solution.seconds);
    EXPECT_EQ(cost.bytes, found.solution.bytes);
    EXPECT_LE(cost.bytes, problem.around.memoryLimit);
  }
  EXPECT_GT(numFeasible, 50u);
}

// Enumeration of what is small, so that writing out is tested as well.
TEST(LayeredProblem, EqualsEnumeration) {
  for (unsigned seed = 0; seed != 20; ++seed) {
    LayeredProblem problem = generateLayered(seed % 2 * 5, 1 + seed % 4);
    auto [least, most] = rangeOfBytes(writeOut(problem).problem);
    problem.around.memoryLimit = std::floor(least + (most - least) * (1 + seed % 3) / 3);
    EXPECT_EQ(solve(problem).solution.seconds, solve(problem, {Method::Exhaustive}).solution.seconds);
  }
}

// Thousands of layers under a limit: too many to write out, but two kinds of layers use the memory up. Where nothing is
// forbidden (every third seed) they can follow each other.
TEST(LayeredProblem, MixesLayersUnderALimit) {
  unsigned numLimited = 0;
  for (unsigned seed = 0; seed != 90; seed += 3) {
    SCOPED_TRACE(seed);
    LayeredProblem problem = generateLayered(seed, 4096);
    LayeredSolution fastest = solve(problem);
    problem.around.memoryLimit = 0;
    double least = solve(problem).solution.leastBytes;
    if (!fastest.solution.isFeasible() || fastest.solution.bytes == least)
      continue;
    ++numLimited;
    problem.around.memoryLimit = std::floor((fastest.solution.bytes + 2 * least) / 3);
    ChoiceSolution found = solve(problem).solution;
    ASSERT_TRUE(found.isFeasible());
    EXPECT_LE(found.bytes, problem.around.memoryLimit);
    EXPECT_LE(found.lowerBound, found.seconds);
    EXPECT_GE(found.lowerBound, found.seconds * 0.999);
  }
  EXPECT_GT(numLimited, 15u);
}

// A million layers take twenty products.
TEST(LayeredProblem, GrowsWithTheLogarithm) {
  LayeredProblem problem = generateLayered(4, 1u << 20);
  std::clock_t start = std::clock();
  LayeredSolution found = solve(problem);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 1);
  EXPECT_EQ(found.solution.lowerBound, found.solution.seconds);
  EXPECT_EQ(found.chains[0].layers.size(), size_t(1) << 20);
}

} // namespace
} // namespace cleave::solver
