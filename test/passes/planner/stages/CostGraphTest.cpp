// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stages of cost graphs: what crosses between them, and the best ones against all.

#include "passes/planner/stages/CostGraph.h"

#include <algorithm>
#include <random>
#include <set>

using namespace cleave::stages;

namespace {

/// Links of 1 byte a second with a latency of 0.5; rings.
class UnitLinks : public ReplicaLinks {
public:
  double allReduceSeconds(double bytes, unsigned devices) override { return 2 * (devices - 1.0) / devices * bytes; }
  double bandwidth() override { return 1; }
  double latency() override { return 0.5; }
};

CostGraph randomGraph(std::mt19937 &random, unsigned count) {
  std::uniform_int_distribution<unsigned> small(0, 9);
  CostGraph graph;
  for (unsigned i = 0; i < count; ++i) {
    CostOp op;
    op.name = "op" + std::to_string(i);
    op.forward = 1 + small(random);
    op.backward = 1 + 2 * small(random);
    op.activation = small(random) * 0.5;
    op.parameters = small(random) * 0.3;
    for (unsigned input = 0; input < i; ++input)
      if (input + 1 == i || small(random) < 2)
        op.inputs.push_back(input);
    graph.ops.push_back(op);
  }
  return graph;
}

/// Each result that is made on one side and read on the other, once.
double crossing(const CostGraph &graph, unsigned from, unsigned to, unsigned first, unsigned last) {
  std::set<unsigned> made;
  for (unsigned reader = first; reader < last; ++reader)
    for (unsigned input : graph.ops[reader].inputs)
      if (input >= from && input < to)
        made.insert(input);
  double bytes = 0;
  for (unsigned op : made)
    bytes += graph.ops[op].activation;
  return bytes;
}

} // namespace

// What enters and leaves a range is what crosses its ends, counted once however many read it.
TEST(CostGraph, countsWhatCrossesOnce) {
  std::mt19937 random(3);
  for (unsigned trial = 0; trial < 20; ++trial) {
    CostGraph graph = randomGraph(random, 9);
    UnitLinks links;
    ReplicatedStages costs(graph, links, ReplicatedStages::Mode::Steady);
    for (unsigned first = 0; first < 9; ++first)
      for (unsigned last = first + 1; last <= 9; ++last) {
        EXPECT_NEAR(costs.entering(first, last), crossing(graph, 0, first, first, last), 1e-9);
        EXPECT_NEAR(costs.leaving(first, last), crossing(graph, first, last, last, 9), 1e-9);
      }
  }
}

// Operators keep their order as far as their inputs allow; a circle is found.
TEST(CostGraph, sortsTopologically) {
  CostGraph graph;
  graph.ops = {{"sum", "", {2, 1}}, {"right", "", {3}}, {"left", "", {3}}, {"x", "", {}}};
  ASSERT_TRUE(sortTopologically(graph));
  std::vector<std::string> names;
  names.reserve(graph.ops.size());
  for (const CostOp &op : graph.ops)
    names.push_back(op.name);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "right", "left", "sum"}));
  EXPECT_EQ(graph.ops[3].inputs, (std::vector<unsigned>{2, 1}));
  graph.ops[0].inputs = {3};
  EXPECT_FALSE(sortTopologically(graph));
}

/// The least longest stage, by trying all stages and replicas with the model written out.
static double tryAll(const CostGraph &graph, unsigned first, unsigned devices) {
  unsigned end = graph.ops.size();
  if (first == end)
    return 0;
  double best = std::numeric_limits<double>::infinity();
  for (unsigned last = first + 1; last <= end; ++last)
    for (unsigned count = 1; count <= devices; ++count) {
      double replicas = count;
      double compute = 0, weights = 0;
      for (unsigned op = first; op < last; ++op) {
        compute += graph.ops[op].seconds();
        weights += graph.ops[op].parameters;
      }
      double stage = std::max({(compute + 2 * (replicas - 1) / replicas * weights) / replicas,
                               2 * crossing(graph, 0, first, first, last) / replicas,
                               2 * crossing(graph, first, last, last, end) / replicas});
      best = std::min(best, std::max(stage, tryAll(graph, last, devices - count)));
    }
  return best;
}

// The partition of a pipeline that is always full equals the best of all.
TEST(CostGraph, partitionEqualsTryingAll) {
  std::mt19937 random(11);
  for (unsigned trial = 0; trial < 30; ++trial) {
    CostGraph graph = randomGraph(random, 7);
    UnitLinks links;
    ReplicatedStages costs(graph, links, ReplicatedStages::Mode::Steady);
    StageProblem problem;
    problem.numLayers = 7;
    problem.microbatches = 1'000'000'000;
    problem.runs = {{5, 0, std::numeric_limits<double>::infinity(), {1, 2, 3, 4, 5}}};
    double longest = 0;
    for (const Stage &stage : searchStages(problem, costs).stages)
      longest = std::max(longest, stage.option.seconds());
    EXPECT_NEAR(longest, tryAll(graph, 0, 5), 1e-6) << trial;
  }
}
