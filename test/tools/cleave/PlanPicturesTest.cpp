// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What pictures of a plan show: the nodes and edges of the graph, the bars and the memory of the timeline.

#include "PredictedPlan.h"

#include "tools/cleave/GraphView.h"
#include "tools/cleave/TimelineData.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace cleave::tool {
namespace {

using runtime::Plan;
using runtime::test::pipelinePrediction;
using runtime::test::PipelineShape;

/// A plan and its summary.
struct Summed {
  explicit Summed(const PipelineShape &shape)
      : plan(pipelinePrediction(shape).read()), summary(*plan, plan->entries.front()) {}
  Plan plan;
  PlanSummary summary;
};

/// How many operators the nodes stand for: each is to be in one.
size_t operatorsIn(const GraphView &view) {
  size_t count = 0;
  for (const GraphNode &node : view.nodes)
    count += node.operators.size();
  return count;
}

// Equal layers of a stage are one node; what crosses between stages is counted once a target.
TEST(GraphViewTest, FoldsLayersOfAStage) {
  Summed two(PipelineShape{2, 2, 3, 8, "1f1b", ""});
  GraphView view = viewGraph(two.summary, 100);
  EXPECT_EQ(view.detail, GraphDetail::Operators);
  EXPECT_EQ(operatorsIn(view), 32u);
  ASSERT_EQ(view.nodes.size(), 14u);
  EXPECT_EQ(view.nodes[6].label, "block1..2: as block0");
  EXPECT_EQ(view.nodes[6].operators.size(), 10u);
  EXPECT_FALSE(view.note.empty());
  double crossing = 0;
  for (const GraphEdge &edge : view.edges) {
    EXPECT_NE(edge.from, edge.to);
    crossing += edge.bytes;
  }
  // block2/add goes to block3/norm and block3/add, two nodes.
  EXPECT_EQ(crossing, 2.0 * (1 << 20));
}

// Where operators are too many, modules are shown, then meshes, then the first meshes; the note says which.
TEST(GraphViewTest, FallsBackToCoarserNodes) {
  Summed many(PipelineShape{8, 1, 4, 8, "1f1b", ""});
  GraphView modules = viewGraph(many.summary, 40);
  EXPECT_EQ(modules.detail, GraphDetail::Modules);
  EXPECT_EQ(modules.nodes.size(), 34u);
  EXPECT_EQ(modules.nodes[1].label, "block0");
  EXPECT_EQ(operatorsIn(modules), 162u);
  GraphView meshes = viewGraph(many.summary, 10);
  EXPECT_EQ(meshes.detail, GraphDetail::Meshes);
  EXPECT_EQ(meshes.nodes.size(), 8u);
  EXPECT_EQ(meshes.edges.size(), 7u);
  GraphView some = viewGraph(many.summary, 3);
  EXPECT_EQ(some.nodes.size(), 3u);
  EXPECT_NE(some.note.find("5 more"), std::string::npos) << some.note;
}

// A step of 1F1B takes (M + p - 1) (F + B + W) where stages are equal and nothing is sent (Narayanan et al. 2019); a
// stage keeps at most as many microbatches as the planner said.
TEST(TimelineDataTest, DrawsThePipeline) {
  auto builder = pipelinePrediction(PipelineShape{4, 1, 1, 8, "1f1b", ""});
  for (auto &stage : builder.entry().prediction->stages)
    stage->send = stage->per_step = 0;
  Plan plan = builder.read();
  PlanSummary summary(*plan, plan->entries.front());
  TimelineData timeline = predictedTimeline(summary);
  EXPECT_NEAR(timeline.seconds, (8 + 4 - 1) * 6e-3, 1e-12);
  EXPECT_EQ(timeline.tracks.size(), 4u);
  EXPECT_EQ(timeline.events.size(), 4u * 8u * 3u);
  std::vector<double> busy(4), most(4);
  for (const auto &event : timeline.events)
    busy[event.track] += event.end - event.begin;
  for (const auto &point : timeline.memory)
    most[point.track] = std::max(most[point.track], point.bytes);
  for (uint32_t stage = 0; stage != 4; ++stage) {
    EXPECT_NEAR(busy[stage], 8 * 6e-3, 1e-12);
    EXPECT_NEAR(most[stage], summary.prediction()->stages[stage].memory.total(), 1);
  }
}

// One stage and one microbatch: its operators in turn, communication first.
TEST(TimelineDataTest, DrawsOperators) {
  auto builder = pipelinePrediction(PipelineShape{1, 2, 1, 1, "", ""});
  builder.entry().prediction->training = false;
  Plan plan = builder.read();
  TimelineData timeline = predictedTimeline(PlanSummary(*plan, plan->entries.front()));
  EXPECT_NEAR(timeline.seconds, 5 * 1e-4 + 7e-4 + 9e-4, 1e-12);
  EXPECT_EQ(std::count_if(timeline.events.begin(), timeline.events.end(),
                          [](const auto &event) { return event.kind == TimelineData::Kind::Communication; }),
            1);
}

// Longer steps than a page can draw are cut, and the page says so.
TEST(TimelineDataTest, CutsOffLongSteps) {
  Summed longStep(PipelineShape{16, 1, 1, 1024, "1f1b", ""});
  TimelineData timeline = predictedTimeline(longStep.summary);
  EXPECT_EQ(timeline.events.size(), timelineEventLimit);
  EXPECT_NE(timeline.note.find("% of the step"), std::string::npos) << timeline.note;
  for (const auto &point : timeline.memory)
    EXPECT_LE(point.seconds, timeline.seconds);
}

} // namespace
} // namespace cleave::tool
