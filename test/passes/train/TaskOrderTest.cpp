// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders of tasks: those of chains as the papers draw them, all others by what every order must keep.

#include "test/passes/train/PlacedLayers.h"

#include "passes/train/TaskOrder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

using namespace mlir;

namespace cleave::test {
namespace {

using pipeline::findSchedule;
using pipeline::Schedule;
using pipeline::TaskKind;

/// A stage of a graph: its mesh, its depth and the stages whose results it reads.
struct TaskNode {
  unsigned mesh, depth;
  std::vector<unsigned> inputs;
};

class Graph {
public:
  explicit Graph(const std::vector<TaskNode> &nodes) {
    for (const TaskNode &node : nodes) {
      Stage &stage = stages.emplace_back();
      stage.mesh = FlatSymbolRefAttr::get(&context, "m" + std::to_string(node.mesh));
      stage.depth = node.depth;
      stage.inputs.insert(node.inputs.begin(), node.inputs.end());
    }
  }

  /// By mesh: "F0 F1 B0": kind, microbatch and, where a mesh has several stages, a letter for which of them.
  std::map<std::string, std::string> run(Schedule schedule, unsigned microbatches) {
    order = orderTasks(stages, schedule, microbatches);
    check(microbatches);
    std::map<std::string, std::string> lists;
    for (const StageTask &task : order) {
      std::string &list = lists[stages[task.stage].mesh.getValue().str()];
      list += (list.empty() ? "" : " ") + nameOf(task);
    }
    return lists;
  }

  /// The most microbatches whose backward is not done on a stage.
  unsigned inFlight(unsigned stage) const {
    unsigned now = 0, most = 0;
    for (const StageTask &task : order)
      if (task.stage == stage) {
        if (task.kind == TaskKind::Forward)
          most = std::max(most, ++now);
        else if (task.kind != TaskKind::BackwardWeight)
          --now;
      }
    return most;
  }

private:
  std::string nameOf(const StageTask &task) const {
    static constexpr const char *letters[] = {"F", "I", "W", "B"};
    std::string name = letters[static_cast<size_t>(task.kind)] + std::to_string(task.microbatch);
    if (task.isAhead)
      name += "'";
    unsigned before = 0, all = 0;
    for (unsigned i = 0; i != stages.size(); ++i)
      if (stages[i].mesh == stages[task.stage].mesh) {
        before += i < task.stage;
        ++all;
      }
    return all == 1 ? name : name + static_cast<char>('a' + before);
  }

  /// Each task occurs once, behind those that it needs.
  void check(unsigned microbatches) const {
    std::map<std::tuple<bool, unsigned, unsigned>, size_t> at; // whether forward, microbatch, stage
    for (size_t i = 0; i != order.size(); ++i)
      if (order[i].isAhead) {
        // What a step begins is what the next one finds begun.
        at[{true, order[i].microbatch, order[i].stage}] = 0;
      } else if (order[i].kind != TaskKind::BackwardWeight) {
        bool isNew =
            at.try_emplace({order[i].kind == TaskKind::Forward, order[i].microbatch, order[i].stage}, i).second;
        EXPECT_TRUE(isNew) << nameOf(order[i]) << " twice";
      }
    ASSERT_EQ(at.size(), 2 * microbatches * stages.size());
    for (auto [key, position] : at) {
      auto [isForward, microbatch, stage] = key;
      if (!isForward) {
        EXPECT_LT((at[{true, microbatch, stage}]), position);
      }
      for (unsigned input : stages[stage].inputs) {
        if (isForward) {
          EXPECT_TRUE(position == 0 || at[(std::tuple(true, microbatch, input))] < position);
        } else {
          EXPECT_GT((at[{false, microbatch, input}]), position);
        }
      }
    }
    for (size_t i = 0; i != order.size(); ++i)
      if (order[i].kind == TaskKind::BackwardWeight) {
        EXPECT_LT((at[{false, order[i].microbatch, order[i].stage}]), i);
      }
  }

  MLIRContext context;
  std::vector<Stage> stages;
  std::vector<StageTask> order;
};

const std::vector<TaskNode> chain = {{0, 0, {}}, {1, 1, {0}}, {2, 2, {1}}, {3, 3, {2}}};

// Figure 2 of GPipe (Huang et al. 2019), the microbatches of the backward pass in order of their numbers.
TEST(TaskOrder, RunsGPipe) {
  Graph graph(chain);
  for (auto &[mesh, list] : graph.run(*findSchedule("gpipe"), 4))
    EXPECT_EQ(list, "F0 F1 F2 F3 B0 B1 B2 B3") << mesh;
}

// Figure 4 of PipeDream-flush (Narayanan et al. 2021): stage i begins with p - i forwards.
TEST(TaskOrder, RunsOneForwardOneBackward) {
  Graph graph(chain);
  auto lists = graph.run(*findSchedule("1f1b"), 6);
  EXPECT_EQ(lists["m0"], "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  EXPECT_EQ(lists["m1"], "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(lists["m3"], "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
  for (unsigned stage = 0; stage != 4; ++stage)
    EXPECT_EQ(graph.inFlight(stage), 4 - stage);
}

// Two meshes, two chunks: the same paper's rule, 2 (p - i - 1) + (v - 1) p forwards first.
TEST(TaskOrder, InterleavesChunks) {
  Graph graph({{0, 0, {}}, {1, 1, {0}}, {0, 2, {1}}, {1, 3, {2}}});
  auto lists = graph.run(*findSchedule("interleaved"), 4);
  EXPECT_EQ(lists["m0"], "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a");
  EXPECT_EQ(lists["m1"], "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
}

// With one chunk it is 1F1B.
TEST(TaskOrder, InterleavesOneChunk) {
  Graph graph(chain);
  auto plain = graph.run(*findSchedule("1f1b"), 4);
  EXPECT_EQ(graph.run(*findSchedule("interleaved"), 4), plain);
}

// Figure 3 of Qi et al. 2024: stage i puts its weights i microbatches behind.
TEST(TaskOrder, PutsWeightsBehind) {
  Graph graph(chain);
  auto lists = graph.run(*findSchedule("zb-h1"), 6);
  EXPECT_EQ(lists["m0"], "F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5");
  EXPECT_EQ(lists["m3"], "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5");
}

// Without draining, each stage ends a step with the forwards that fill the pipeline in front of the next one: a cut
// through 1F1B of all steps in a row. What comes early of the next batch has a prime.
TEST(TaskOrder, GoesOnFromStepToStep) {
  Graph graph(chain);
  auto lists = graph.run(*findSchedule("2bw"), 4);
  EXPECT_EQ(lists["m0"], "F3 B0 F0' B1 F1' B2 F2' B3");
  EXPECT_EQ(lists["m1"], "F2 B0 F3 B1 F0' B2 F1' B3");
  EXPECT_EQ(lists["m2"], "F1 B0 F2 B1 F3 B2 F0' B3");
  EXPECT_EQ(lists["m3"], "F0 B0 F1 B1 F2 B2 F3 B3");
}

// A V over two and over three meshes. What the last one has of both chunks lies next to each other and is one stage.
TEST(TaskOrder, ComesBackInAV) {
  Graph two({{0, 0, {}}, {1, 1, {0}}, {0, 2, {1}}});
  auto lists = two.run(*findSchedule("zb-v"), 4);
  EXPECT_EQ(lists["m0"], "F0a F1a F2a F0b I0b W0b F1b I1b W1b F3a I0a W0a F2b I2b W2b I1a W1a F3b I3b W3b I2a W2a I3a "
                         "W3a");
  EXPECT_EQ(lists["m1"], "F0 F1 I0 W0 F2 I1 W1 F3 I2 I3 W2 W3");
  Graph three({{0, 0, {}}, {1, 1, {0}}, {2, 2, {1}}, {1, 3, {2}}, {0, 4, {3}}});
  EXPECT_EQ(three.run(*findSchedule("zb-v"), 5)["m2"], "F0 F1 F2 I0 W0 F3 I1 W1 F4 I2 I3 I4 W2 W3 W4");
}

// The same with two microbatches side by side: the order of dualpipev.py, gradients of weights written out.
TEST(TaskOrder, RunsTwoMicrobatchesSideBySide) {
  Graph two({{0, 0, {}}, {1, 1, {0}}, {0, 2, {1}}});
  auto lists = two.run(*findSchedule("dualpipe-v"), 4);
  EXPECT_EQ(lists["m0"], "F0a F1a F2a F0b I0b W0b F1b F3a I1b W1b F2b I0a W0a I2b W2b F3b I1a W1a I3b W3b I2a W2a I3a "
                         "W3a");
}

/// One forward of each microbatch at a time: a row that is not in the table.
pipeline::PipelineOrder orderOneByOne(const std::vector<pipeline::StageTimes> &, const pipeline::PipelineShape &shape,
                                      const std::vector<unsigned> &) {
  pipeline::PipelineOrder order(shape.stages);
  for (auto &tasks : order)
    for (unsigned i = 0; i != shape.microbatches; ++i)
      tasks.insert(tasks.end(), {{TaskKind::Forward, i}, {TaskKind::Backward, i}});
  return order;
}

// Steps follow a row from outside as they follow those of the table.
TEST(TaskOrder, FollowsAnyRow) {
  static const pipeline::ScheduleRow row = {
      .name = "one-by-one",
      .summary = "one microbatch after the other",
      .order = orderOneByOne,
      .chunksInFlight = [](const pipeline::PipelineShape &, unsigned) { return 1u; },
      .mostStages = [](unsigned) { return 1u; },
      .ramp = [](const pipeline::StageTimes &times, unsigned) { return times.sum(); }};
  Graph graph(chain);
  for (auto &[mesh, list] : graph.run(row, 3))
    EXPECT_EQ(list, "F0 B0 F1 B1 F2 B2") << mesh;
}

class AnyGraph : public testing::TestWithParam<Schedule> {};

// Microbatches that the meshes do not divide, stages that return without being asked to interleave, branches, skips,
// and stages that nobody waits for: every schedule gives an order, and keeps no more than depths are behind a stage.
TEST_P(AnyGraph, HasAnOrder) {
  std::vector<std::vector<TaskNode>> graphs = {
      {{0, 0, {}}},
      {{0, 0, {}}, {1, 1, {0}}, {0, 2, {1}}, {1, 3, {2}}},
      {{0, 0, {}}, {1, 1, {0}}, {0, 2, {1}}},
      {{0, 0, {}}, {1, 1, {0}}, {2, 1, {0}}, {3, 2, {1, 2}}},
      {{0, 0, {}}, {1, 1, {0}}, {2, 2, {0, 1}}, {3, 3, {0, 2}}},
      {{0, 0, {}}, {1, 0, {}}, {2, 1, {0, 1}}, {0, 2, {2}}},
  };
  for (size_t i = 0; i != graphs.size(); ++i)
    for (unsigned microbatches : {1, 2, 3, 5, 8}) {
      SCOPED_TRACE("graph " + std::to_string(i) + ", microbatches " + std::to_string(microbatches));
      Graph graph(graphs[i]);
      graph.run(GetParam(), microbatches);
      if (GetParam() == *findSchedule("1f1b"))
        for (unsigned stage = 0; stage != graphs[i].size(); ++stage) {
          EXPECT_LE(graph.inFlight(stage), graphs[i].back().depth - graphs[i][stage].depth + 1);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Schedules, AnyGraph,
                         testing::Values(*findSchedule("gpipe"), *findSchedule("1f1b"), *findSchedule("interleaved"),
                                         *findSchedule("zb-h1"), *findSchedule("zb-h2"), *findSchedule("zb-v"),
                                         *findSchedule("dualpipe-v"), *findSchedule("zb-auto")),
                         [](const auto &info) {
                           std::string name(info.param->name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
} // namespace cleave::test
