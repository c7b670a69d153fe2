// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Experts on devices that have samples of their own.

#include "ModelGraph.h"

#include "passes/planner/search/Search.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::search;

namespace {

std::map<std::string, int64_t> mixture(int64_t experts) {
  return {{"batch", 4}, {"layers", 2},    {"hidden", 64},      {"heads", 4},        {"kv-heads", 2},
          {"ffn", 96},  {"sequence", 16}, {"vocabulary", 101}, {"experts", experts}};
}

std::string nodeOf(const SearchGraph &graph, const Operator &op) { return graph.nodes[op.node].name.str(); }

bool hasWeights(const Operator &op) {
  return op.cost.costClass == CostClass::Contraction &&
         llvm::any_of(op.operands, [](const Operand &operand) { return operand.parameter != none; });
}

// Two products of each mixture have a matrix for each expert; the router and those of attention have one matrix.
TEST(Experts, ProductsNumberTheirMatrices) {
  ModelGraph model("mixtral", mixture(6), 1.0);
  EXPECT_TRUE(model.graph.hasExperts);
  std::vector<std::string> found;
  for (const Operator &op : model.graph.operators) {
    if (!hasWeights(op) || op.experts == none)
      continue;
    found.push_back(nodeOf(model.graph, op));
    EXPECT_EQ(op.rule.factors[op.experts].size, 6);
    EXPECT_NE(op.experts, op.batch);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"block0/moe", "block0/moe", "block1/moe", "block1/moe"}));
}

// Between the two products every operator can be on the experts' devices; after the second one tokens go back, and the
// next layer knows nothing of experts.
TEST(Experts, WhatFollowsIsOnTheirDevices) {
  ModelGraph model("mixtral", mixture(6), 1.0);
  bool between = false;
  unsigned products = 0, operators = 0;
  for (const Operator &op : model.graph.operators) {
    std::string node = nodeOf(model.graph, op);
    if (node != "block0/moe") {
      EXPECT_TRUE(node == "block1/moe" || op.experts == none) << node;
      continue;
    }
    if (hasWeights(op) && op.experts != none)
      between = ++products == 1;
    else if (between && !op.once && op.batch != none) {
      EXPECT_NE(op.experts, none) << op.op->getName().getStringRef().str();
      ++operators;
    }
  }
  EXPECT_EQ(products, 2u);
  EXPECT_GE(operators, 2u);
}

// Where rows choose their matrices there are no places that could be elsewhere; groups of a convolution are channels.
TEST(Experts, OtherModelsHaveNone) {
  EXPECT_FALSE(ModelGraph("mixtral", mixture(6)).graph.hasExperts);
  EXPECT_FALSE(ModelGraph("alexnet", {{"batch", 4}}).graph.hasExperts);
  EXPECT_FALSE(ModelGraph("gpt", {{"batch", 4}, {"layers", 1}}).graph.hasExperts);
}

/// What each axis of a stage's grid cuts of the products of a node: the batch, the experts, or another factor.
std::vector<std::string> cutsOf(const SearchGraph &graph, const FoundPlan &plan, llvm::StringRef node) {
  std::vector<std::string> cuts;
  for (const FoundStage &stage : plan.stages)
    for (unsigned at = stage.first; at != stage.last; ++at) {
      const Operator &op = graph.operators[plan.operatorAt(at)];
      if (nodeOf(graph, op) != node || !hasWeights(op) || (node.ends_with("moe") && op.experts == none))
        continue;
      for (unsigned axis = 0; axis != stage.axes.size(); ++axis) {
        unsigned factor = stage.factors[at - stage.first][axis];
        cuts.push_back(factor == none         ? "none"
                       : factor == op.experts ? "experts"
                       : factor == op.batch   ? "batch"
                                              : "other");
      }
    }
  return cuts;
}

SearchRequest trainingOf(int64_t batch) {
  SearchRequest request;
  request.training = true;
  request.batch = batch;
  request.microbatches = 1;
  return request;
}

// The same devices have a sample's attention and an expert.
TEST(Experts, DegreeCutsSamplesAndExperts) {
  ModelGraph model("mixtral", mixture(8), 1.0);
  auto machine = parseMachine("a100-80g:8");
  ASSERT_TRUE(bool(machine));
  SearchRequest request = trainingOf(8);
  request.degrees.expert = 8;
  auto found = findPlan(model.graph, *machine, request);
  ASSERT_TRUE(std::holds_alternative<FoundPlan>(found)) << std::get<SearchFailure>(found).message;
  const auto &plan = std::get<FoundPlan>(found);
  EXPECT_EQ(cutsOf(model.graph, plan, "block0/attention/query"), std::vector<std::string>{"batch"});
  EXPECT_EQ(cutsOf(model.graph, plan, "block0/moe"), (std::vector<std::string>{"experts", "experts"}));
}

TEST(Experts, DegreeNeedsPlaces) {
  ModelGraph model("mixtral", mixture(8));
  auto machine = parseMachine("a100-80g:8");
  ASSERT_TRUE(bool(machine));
  SearchRequest request = trainingOf(8);
  request.degrees.expert = 8;
  auto found = findPlan(model.graph, *machine, request);
  ASSERT_TRUE(std::holds_alternative<SearchFailure>(found));
  EXPECT_EQ(std::get<SearchFailure>(found).message,
            "--degrees expects a mixture whose experts have places for tokens, got expert=8 for a model without; give "
            "--expert-capacity where it has experts");
}

// A placement file's meshes say degrees, too.
TEST(Experts, MeshOfDegreesNeedsPlaces) {
  ModelGraph model("mixtral", mixture(8));
  model.pin(std::vector<unsigned>(model.graph.nodes.size(), 0));
  auto machine = parseMachine("a100-80g:4");
  ASSERT_TRUE(bool(machine));
  SearchRequest request = trainingOf(8);
  MeshSpec mesh{"front", {0, 1, 2, 3}, {{"expert", 4}}};
  mesh.axesAreDegrees = true;
  request.pinned.push_back(mesh);
  auto found = findPlan(model.graph, *machine, request);
  ASSERT_TRUE(std::holds_alternative<SearchFailure>(found));
  EXPECT_EQ(std::get<SearchFailure>(found).message.substr(0, 32), "mesh \"front\" expects a mixture w");
}

} // namespace
