// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The orders of pipelines, merged by the times at which their tasks begin; and a list schedule for all other graphs.

#include "passes/train/TaskOrder.h"

#include "passes/pipeline/PipelineSimulator.h"

#include <algorithm>
#include <array>
#include <optional>
#include <queue>

using namespace mlir;

namespace cleave {

using pipeline::ChunkOrder;
using pipeline::Schedule;
using pipeline::TaskKind;

namespace {

/// How the stages of a graph are the parts of a pipeline.
struct Chain {
  unsigned stages = 0, chunks = 0;
  ChunkOrder order = ChunkOrder::Rounds;

  unsigned numParts() const { return stages * chunks; }
  /// The stage of the graph that a part is. Parts next to each other on one mesh, where a round comes back, are one.
  unsigned at(unsigned part) const { return order == ChunkOrder::Turns ? part - part / stages : part; }
  /// Whether the part after it belongs to the same stage of the graph.
  bool joinsNext(unsigned part) const { return part + 1 != numParts() && at(part) == at(part + 1); }
};

} // namespace

/// The pipeline that a graph's stages form if chunks lie in that order; nothing where they form none.
static std::optional<Chain> findChain(const std::vector<Stage> &graph, ChunkOrder order) {
  llvm::SmallVector<Attribute> meshes;
  for (auto [index, stage] : llvm::enumerate(graph)) {
    if (stage.depth != index)
      return std::nullopt;
    if (!llvm::is_contained(meshes, stage.mesh))
      meshes.push_back(stage.mesh);
  }
  if (meshes.empty())
    return std::nullopt;
  Chain chain{static_cast<unsigned>(meshes.size()), 1, order};
  while (chain.at(chain.numParts() - 1) + 1 < graph.size())
    ++chain.chunks;
  if (chain.at(chain.numParts() - 1) + 1 != graph.size())
    return std::nullopt;
  for (unsigned part = 0; part != chain.numParts(); ++part)
    if (graph[chain.at(part)].mesh != meshes[pipeline::stageOf(order, part, chain.stages)])
      return std::nullopt;
  return chain;
}

/// The pipeline whose stages have chunks as the schedule wants them.
static std::optional<Chain> findChain(const std::vector<Stage> &graph, Schedule schedule) {
  std::optional<Chain> chain = findChain(graph, schedule->chunkOrder);
  bool fits = chain && schedule->fewestChunks <= chain->chunks && chain->chunks <= schedule->mostChunks;
  return fits ? chain : std::nullopt;
}

/// Forward, gradient of the input and gradient of the weights take as long as each other: only their order counts.
static std::vector<StageTask> orderChain(const Chain &chain, Schedule schedule, unsigned microbatches) {
  std::vector<pipeline::StageTimes> times(chain.stages, {1, 1, 1, 0});
  pipeline::PipelineTimeline timeline = pipeline::simulatePipeline(times, {schedule, microbatches, chain.chunks, {}});
  struct Begin {
    double seconds;
    StageTask task;
  };
  std::vector<Begin> begins;
  for (unsigned stage = 0; stage != timeline.stages.size(); ++stage)
    for (const pipeline::TimedTask &task : timeline.stages[stage].tasks) {
      unsigned part = pipeline::partOf(chain.order, stage, task.chunk, chain.stages);
      // Of parts that are one stage, forward and gradient of the input are done where the later one has its turn, and
      // gradients of weights where the earlier one has.
      bool isOther =
          task.kind == TaskKind::BackwardWeight ? part > 0 && chain.joinsNext(part - 1) : chain.joinsNext(part);
      if (!isOther)
        begins.push_back({task.begin, {task.kind, task.microbatch, chain.at(part)}});
    }
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
      : graph(graph), forwardsFirst(schedule->forwardsFirst), microbatches(microbatches), users(graph.size()),
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
  return !schedule->needsChain || findChain(graph, schedule) ? schedule : Schedule();
}

/// Of a pipeline that does not drain: what stages do from the last backward of one batch to that of the next.
static std::vector<StageTask> orderSteadily(const Chain &chain, Schedule schedule, unsigned microbatches) {
  std::vector<unsigned> backwards(chain.numParts());
  std::vector<StageTask> step;
  for (StageTask task : orderChain(chain, schedule, 3 * microbatches)) {
    unsigned &done = backwards[task.stage];
    bool isInside = microbatches <= done && done < 2 * microbatches;
    done += task.kind == TaskKind::Backward;
    if (isInside)
      step.push_back({task.kind, task.microbatch % microbatches, task.stage, task.microbatch >= 2 * microbatches});
  }
  return step;
}

std::vector<StageTask> orderTasks(const std::vector<Stage> &graph, Schedule schedule, unsigned microbatches) {
  schedule = possibleSchedule(graph, schedule);
  if (std::optional<Chain> chain = findChain(graph, schedule); chain && !schedule.drains())
    return orderSteadily(*chain, schedule, microbatches);
  if (std::optional<Chain> chain = findChain(graph, schedule))
    if (std::vector<StageTask> order = orderChain(*chain, schedule, microbatches); !order.empty())
      return order;
  return ListOrder(graph, schedule, microbatches).run();
}

} // namespace cleave
