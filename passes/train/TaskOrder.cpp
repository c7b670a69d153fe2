// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The orders of pipelines, merged by the times at which their tasks begin; and a list schedule for all other graphs.

#include "passes/train/TaskOrder.h"

#include "passes/planner/stages/PipelineSimulator.h"

#include <algorithm>
#include <array>
#include <queue>

using namespace mlir;

namespace cleave {

using stages::Schedule;
using stages::TaskKind;

/// How many times the stages pass over the meshes in the same order, each depth being one stage; 0 where they do not.
static unsigned findChunks(const std::vector<Stage> &graph) {
  llvm::SmallVector<Attribute> meshes;
  for (auto [index, stage] : llvm::enumerate(graph)) {
    if (stage.depth != index)
      return 0;
    if (meshes.empty() || !llvm::is_contained(meshes, stage.mesh))
      meshes.push_back(stage.mesh);
  }
  if (meshes.empty() || graph.size() % meshes.size() != 0)
    return 0;
  for (auto [index, stage] : llvm::enumerate(graph))
    if (stage.mesh != meshes[index % meshes.size()])
      return 0;
  return static_cast<unsigned>(graph.size() / meshes.size());
}

/// Forward, gradient of the input and gradient of the weights take as long as each other: only their order counts.
static std::vector<StageTask> orderChain(unsigned numStages, unsigned chunks, Schedule schedule,
                                         unsigned microbatches) {
  std::vector<stages::StageTimes> times(numStages, {1, 1, 1, 0});
  stages::PipelineTimeline timeline = stages::simulatePipeline(times, {schedule, microbatches, chunks, {}});
  struct Begin {
    double seconds;
    StageTask task;
  };
  std::vector<Begin> begins;
  for (unsigned stage = 0; stage != timeline.stages.size(); ++stage)
    for (const stages::TimedTask &task : timeline.stages[stage].tasks)
      begins.push_back({task.begin, {task.kind, task.microbatch, task.chunk * numStages + stage}});
  std::stable_sort(begins.begin(), begins.end(),
                   [](const Begin &left, const Begin &right) { return left.seconds < right.seconds; });
  std::vector<StageTask> order;
  for (const Begin &begin : begins)
    order.push_back(begin.task);
  return order;
}

namespace {

/// List scheduling on simulated time.
class ListOrder {
public:
  ListOrder(const std::vector<Stage> &graph, Schedule schedule, unsigned microbatches)
      : graph(graph), forwardsFirst(schedule == Schedule::GPipe), microbatches(microbatches), users(graph.size()),
        inFlight(graph.size()), missing(microbatches * graph.size()) {
    unsigned depth = 0;
    for (auto [index, stage] : llvm::enumerate(graph)) {
      depth = std::max(depth, stage.depth);
      for (unsigned input : stage.inputs)
        users[input].push_back(static_cast<unsigned>(index));
      if (!llvm::is_contained(meshes, stage.mesh))
        meshes.push_back(stage.mesh);
    }
    for (const Stage &stage : graph)
      limits.push_back(forwardsFirst ? microbatches : depth - stage.depth + 1);
    freeAt.resize(meshes.size());
    for (unsigned microbatch = 0; microbatch != microbatches; ++microbatch)
      for (unsigned stage = 0; stage != graph.size(); ++stage) {
        auto &counts = missing[microbatch * graph.size() + stage];
        counts = {static_cast<unsigned>(graph[stage].inputs.size()), static_cast<unsigned>(users[stage].size()) + 1};
        if (counts[0] == 0)
          ready.push_back({TaskKind::Forward, microbatch, stage});
      }
  }

  std::vector<StageTask> run() {
    while (!ready.empty() || !running.empty()) {
      bool began = false;
      for (unsigned mesh = 0; mesh != meshes.size(); ++mesh)
        began |= freeAt[mesh] <= now && begin(mesh);
      if (began)
        continue;
      if (running.empty())
        // Nothing may begin under its limit: only a graph whose depths are no pipeline comes here.
        limits.assign(limits.size(), microbatches);
      else
        end();
    }
    return std::move(order);
  }

private:
  struct Running {
    double end;
    size_t number;
    StageTask task;
    bool operator<(const Running &other) const { return end != other.end ? end > other.end : number > other.number; }
  };

  bool isBefore(const StageTask &left, const StageTask &right) const {
    if (left.kind != right.kind)
      return (left.kind == TaskKind::Forward) == forwardsFirst;
    if (left.microbatch != right.microbatch)
      return left.microbatch < right.microbatch;
    return left.kind == TaskKind::Forward ? left.stage < right.stage : left.stage > right.stage;
  }

  bool begin(unsigned mesh) {
    auto best = ready.end();
    for (auto task = ready.begin(); task != ready.end(); ++task) {
      if (graph[task->stage].mesh != meshes[mesh] ||
          (task->kind == TaskKind::Forward && inFlight[task->stage] >= limits[task->stage]))
        continue;
      if (best == ready.end() || isBefore(*task, *best))
        best = task;
    }
    if (best == ready.end())
      return false;
    StageTask task = *best;
    ready.erase(best);
    order.push_back(task);
    if (task.kind == TaskKind::Forward)
      ++inFlight[task.stage];
    freeAt[mesh] = now + (task.kind == TaskKind::Forward ? 1 : 2);
    running.push({freeAt[mesh], order.size(), task});
    return true;
  }

  void end() {
    now = running.top().end;
    StageTask task = running.top().task;
    running.pop();
    auto meet = [&](unsigned stage, TaskKind kind) {
      unsigned &count = missing[task.microbatch * graph.size() + stage][kind != TaskKind::Forward];
      if (--count == 0)
        ready.push_back({kind, task.microbatch, stage});
    };
    if (task.kind == TaskKind::Forward) {
      for (unsigned user : users[task.stage])
        meet(user, TaskKind::Forward);
      meet(task.stage, TaskKind::Backward);
    } else {
      --inFlight[task.stage];
      for (unsigned input : graph[task.stage].inputs)
        meet(input, TaskKind::Backward);
    }
  }

  const std::vector<Stage> &graph;
  bool forwardsFirst;
  unsigned microbatches;
  std::vector<std::vector<unsigned>> users;
  std::vector<unsigned> limits, inFlight;
  /// By microbatch and stage: what a forward and a backward still wait for.
  std::vector<std::array<unsigned, 2>> missing;
  llvm::SmallVector<Attribute> meshes;
  std::vector<double> freeAt;
  std::vector<StageTask> ready, order;
  std::priority_queue<Running> running;
  double now = 0;
};

} // namespace

Schedule possibleSchedule(const std::vector<Stage> &graph, Schedule schedule) {
  unsigned chunks = findChunks(graph);
  bool isPossible = schedule == Schedule::GPipe || schedule == Schedule::OneForwardOneBackward ||
                    (schedule == Schedule::Interleaved ? chunks > 1 : chunks == 1);
  return isPossible ? schedule : Schedule::OneForwardOneBackward;
}

std::vector<StageTask> orderTasks(const std::vector<Stage> &graph, Schedule schedule, unsigned microbatches) {
  unsigned chunks = findChunks(graph);
  auto numStages = static_cast<unsigned>(chunks ? graph.size() / chunks : 0);
  schedule = possibleSchedule(graph, schedule);
  if (chunks == 1 || (chunks > 1 && schedule == Schedule::Interleaved))
    if (std::vector<StageTask> order = orderChain(numStages, chunks, schedule, microbatches); !order.empty())
      return order;
  return ListOrder(graph, schedule, microbatches).run();
}

} // namespace cleave
