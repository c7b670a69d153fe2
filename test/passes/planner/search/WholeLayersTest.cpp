// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executors whose stages have whole layers and wait for what they send, and whose checkpoints compute no more again
// than the backward pass reads.

#include "ModelGraph.h"

#include "passes/cost/MachineFile.h"
#include "passes/planner/search/Searcher.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::search;

namespace {

std::map<std::string, int64_t> gptOf(int64_t layers) {
  return {{"batch", 2}, {"layers", layers}, {"hidden", 64}, {"heads", 4}, {"sequence", 32}, {"vocabulary", 128}};
}

Executor wholeLayers() {
  auto executor = findExecutor("megatron-2021", "test");
  EXPECT_TRUE(bool(executor));
  executor->wholeLayers = true;
  return *executor;
}

llvm::StringRef nodeAt(const SearchGraph &graph, const Boundary &boundary) {
  return graph.nodes[graph.operators[boundary.at].node].name;
}

/// The nodes at which stages may begin, of those whose names begin with "block".
std::vector<std::string> beginningsOf(const SearchGraph &graph) {
  std::vector<std::string> names;
  for (const Boundary &boundary : llvm::ArrayRef(graph.boundaries).drop_back())
    if (nodeAt(graph, boundary).starts_with("block"))
      names.push_back(nodeAt(graph, boundary).str());
  return names;
}

// Without it the attention and the MLP of a layer may be on two stages.
TEST(WholeLayersTest, StagesBeginWithLayers) {
  ModelGraph model("gpt", gptOf(4));
  EXPECT_GT(beginningsOf(model.graph).size(), 4u);
  model.readFor(wholeLayers());
  EXPECT_EQ(beginningsOf(model.graph),
            (std::vector<std::string>{"block0/norm1", "block1/norm1", "block2/norm1", "block3/norm1"}));
}

// More layers than boundaries are kept: all stages of two layers can be made, the first and the last one, too.
TEST(WholeLayersTest, LayersAreJoinedInPairs) {
  ModelGraph model("gpt", gptOf(128));
  model.readFor(wholeLayers());
  std::vector<std::string> beginnings = beginningsOf(model.graph);
  EXPECT_EQ(beginnings.size(), 64u);
  for (size_t pair = 0; pair != beginnings.size(); ++pair)
    EXPECT_EQ(beginnings[pair], "block" + std::to_string(2 * pair) + "/norm1");
}

// What does not repeat is cut as without it.
TEST(WholeLayersTest, OtherModelsStayAsTheyAre) {
  ModelGraph model("lenet", {{"batch", 2}});
  size_t before = model.graph.boundaries.size();
  model.readFor(wholeLayers());
  EXPECT_EQ(model.graph.boundaries.size(), before);
}

/// What the second layer of a model amounts to on one device.
Sums layerOf(const Executor &executor) {
  ModelGraph model("gpt", gptOf(3));
  model.readFor(executor);
  MachineGrid on("a100-80g", {1});
  PieceOptions options;
  options.training = true;
  options.executor = executor;
  const std::vector<Boundary> &boundaries = model.graph.boundaries;
  auto from = llvm::find_if(boundaries, [&](const Boundary &boundary) {
    return boundary.at < model.graph.operators.size() && nodeAt(model.graph, boundary) == "block1/norm1";
  });
  EXPECT_NE(from, boundaries.end());
  auto to = std::next(from);
  Piece piece(model.graph, from->at, to->at, from->single, to->single, on.grid, on.cost, options, FixedFactors());
  return piece.sumsOf(std::vector<unsigned>(piece.problem.variables.size(), 0));
}

// The last product of a layer and the residual behind it are left out: no gradient depends on their results.
TEST(WholeLayersTest, RecomputationStops) {
  Executor executor = wholeLayers();
  Sums all = layerOf(executor);
  executor.stopsRecomputing = true;
  Sums stopped = layerOf(executor);
  EXPECT_EQ(all.unrepeated, 0);
  EXPECT_EQ(stopped.forward, all.forward);
  EXPECT_GT(stopped.unrepeated, 0);
  EXPECT_LT(stopped.unrepeated, all.forward / 3);
  EXPECT_EQ(stopped.backward, all.backward);
}

// The first of two stages waits for its activations, the second one for their gradients; software that overlaps them
// does not.
TEST(WholeLayersTest, StagesWaitForWhatTheySend) {
  auto machine = parseMachine("a100-80g:2");
  ASSERT_TRUE(bool(machine));
  auto stagesOf = [&](bool overlaps) {
    machine->executor = wholeLayers();
    machine->executor.overlapsGradients = overlaps;
    ModelGraph model("gpt", gptOf(4));
    model.readFor(machine->executor);
    SearchRequest request;
    request.training = true;
    request.considersOthers = false;
    request.batch = 8;
    request.microbatches = 4;
    request.recompute = Recompute::None;
    request.zero = 0;
    request.degrees.pipeline = 2;
    auto found = findPlan(model.graph, *machine, request);
    EXPECT_TRUE(std::holds_alternative<FoundPlan>(found));
    return std::get<FoundPlan>(found).stages;
  };
  auto alone = stagesOf(true), waiting = stagesOf(false);
  ASSERT_EQ(alone.size(), 2u);
  ASSERT_EQ(waiting.size(), 2u);
  double send = waiting[0].send;
  EXPECT_GT(send, 0);
  EXPECT_DOUBLE_EQ(waiting[0].forward, alone[0].forward + send);
  EXPECT_DOUBLE_EQ(waiting[0].backward, alone[0].backward);
  EXPECT_DOUBLE_EQ(waiting[1].forward, alone[1].forward);
  EXPECT_DOUBLE_EQ(waiting[1].backward, alone[1].backward + send);
}

} // namespace
