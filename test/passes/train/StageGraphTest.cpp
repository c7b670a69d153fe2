// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which operators run together as one task of a microbatch.

#include "test/passes/train/PlacedLayers.h"

#include "passes/train/StageGraph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

using namespace mlir;
using testing::ElementsAre;

namespace cleave::test {
namespace {

/// An operator of a graph: its mesh and the operators whose results it adds up. In the place of those that lack: the
/// input and a weight; or one of them alone.
struct Node {
  unsigned mesh;
  std::vector<unsigned> operands;
  std::string first = "%x", second = "%w";
};

/// `more`: operators behind those.
std::string textOf(const std::vector<Node> &nodes, const std::string &more) {
  std::ostringstream text;
  unsigned numMeshes = 0;
  for (const Node &node : nodes)
    numMeshes = std::max(numMeshes, node.mesh + 1);
  for (unsigned mesh = 0; mesh != numMeshes; ++mesh)
    text << "dist.mesh @m" << mesh << " <[], devices = [" << mesh << "]>\n";
  text << "dfg.parameter @w : tensor<4xf32> = #dfg.fill<value = 1.0>\n"
       << "dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n%w = dfg.read @w : tensor<4xf32>\n";
  for (size_t i = 0; i != nodes.size(); ++i) {
    const std::vector<unsigned> &operands = nodes[i].operands;
    auto name = [&](size_t at) { return "%v" + std::to_string(operands[at]); };
    text << "%v" << i << " = dfg.add " << (operands.empty() ? nodes[i].first : name(0)) << ", "
         << (operands.size() < 2 ? nodes[i].second : name(1)) << " {dist.place = #dist.place<@m" << nodes[i].mesh
         << ", by = \"test\">} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n";
  }
  text << more << "dfg.return %v" << nodes.size() - 1 << " : tensor<4xf32>\n}\n";
  return text.str();
}

/// "m0/0 2 <- 0 1": mesh and depth, how many operators, and the stages that it reads.
std::vector<std::string> stagesOf(const std::vector<Node> &nodes, const std::string &more = "") {
  PlacedModule placed(textOf(nodes, more));
  std::vector<std::string> list;
  for (const Stage &stage : findStages(placed.graph())) {
    std::ostringstream text;
    text << stage.mesh.getValue().str() << "/" << stage.depth << " " << stage.operators.size() << " <-";
    for (unsigned input : stage.inputs)
      text << " " << input;
    list.push_back(text.str());
  }
  return list;
}

// Reads of parameters belong to none.
TEST(StageGraph, JoinsOperatorsOfAMesh) {
  EXPECT_THAT(stagesOf({{0, {}}, {0, {0}}, {0, {1}}}), ElementsAre("m0/0 3 <-"));
}

TEST(StageGraph, CutsAChainWhereTheMeshChanges) {
  EXPECT_THAT(stagesOf({{0, {}}, {0, {0}}, {1, {1}}, {2, {2}}, {2, {3}}}),
              ElementsAre("m0/0 2 <-", "m1/1 1 <- 0", "m2/2 2 <- 1"));
}

// Each pass over the meshes has stages of its own.
TEST(StageGraph, ReturnsToAMesh) {
  EXPECT_THAT(stagesOf({{0, {}}, {1, {0}}, {0, {1}}, {1, {2}}}),
              ElementsAre("m0/0 1 <-", "m1/1 1 <- 0", "m0/2 1 <- 1", "m1/3 1 <- 2"));
}

// Branches side by side are stages of one depth, none of which waits for the other.
TEST(StageGraph, SeparatesBranches) {
  EXPECT_THAT(stagesOf({{0, {}}, {1, {0}}, {2, {0}}, {0, {1, 2}}}),
              ElementsAre("m0/0 1 <-", "m1/1 1 <- 0", "m2/1 1 <- 0", "m0/2 1 <- 1 2"));
}

// What skips a stage is an input of the one that reads it.
TEST(StageGraph, KnowsSkips) {
  EXPECT_THAT(stagesOf({{0, {}}, {1, {0}}, {2, {1, 0}}}), ElementsAre("m0/0 1 <-", "m1/1 1 <- 0", "m2/2 1 <- 1 0"));
}

// Labels and masks, weights in another shape, and counters make no stage of their own: the model is still a chain.
TEST(StageGraph, PreparesWithTheFirstUser) {
  for (const char *source : {"%x", "%w"})
    EXPECT_THAT(stagesOf({{0, {}}, {1, {}, source, source}, {1, {1}, "", source}, {1, {0, 2}}}),
                ElementsAre("m0/0 1 <-", "m1/1 3 <- 0"));
  EXPECT_THAT(stagesOf({{0, {}}, {1, {0}}}, "dfg.write @w, %w {dist.place = #dist.place<@m1, by = \"test\">} : "
                                            "tensor<4xf32>\n"),
              ElementsAre("m0/0 1 <-", "m1/1 2 <- 0"));
}

// What an earlier mesh needs is not put off for a later one.
TEST(StageGraph, PreparesInTime) {
  EXPECT_THAT(stagesOf({{0, {}, "%x", "%x"}, {0, {0}}, {1, {1, 0}}}), ElementsAre("m0/0 2 <-", "m1/1 1 <- 0"));
  EXPECT_THAT(stagesOf({{0, {}, "%x", "%x"}, {1, {0}}, {2, {1, 0}}}),
              ElementsAre("m0/0 1 <-", "m1/1 1 <- 0", "m2/2 1 <- 1 0"));
}

// What waits for nobody runs with what comes first on its mesh, wherever it stands in the graph.
TEST(StageGraph, BeginsEarly) {
  EXPECT_THAT(stagesOf({{0, {}}, {1, {0}}, {0, {}}, {1, {1, 2}}}), ElementsAre("m0/0 2 <-", "m1/1 2 <- 0"));
}

} // namespace
} // namespace cleave::test
