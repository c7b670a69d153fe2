// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The predicted step, from what the planner expects of stages and operators.

#include "tools/cleave/TimelineData.h"

#include "passes/pipeline/PipelineSimulator.h"
#include "tools/cleave/ScheduleNames.h"
#include "tools/cleave/SimulateStages.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace cleave::tool {

using pipeline::TaskKind;
using pipeline::TimedTask;
using runtime::Operator;
using runtime::PlanStage;
using runtime::Prediction;
using Kind = TimelineData::Kind;

/// Rows that a page can show.
static constexpr size_t trackLimit = 64;

//===-- operators ---------------------------------------------------------------------------------------------===//

/// One operator after the other, what each waits for first.
static void addOperators(TimelineData &timeline, const PlanSummary &summary) {
  timeline.tracks = {"operators"};
  for (const Operator &op : summary.entry.operators) {
    double communication = std::max(0.0, op.communicationSeconds);
    double all = std::max(communication, op.predictedSeconds), begin = timeline.seconds;
    if (communication > 0)
      timeline.events.push_back({0, Kind::Communication, begin, begin + communication, op.name});
    if (all > communication)
      timeline.events.push_back({0, Kind::Forward, begin + communication, begin + all, op.name});
    timeline.seconds += all;
  }
  timeline.source = "the predicted times of the operators, one after the other";
}

//===-- pipelines ---------------------------------------------------------------------------------------------===//

namespace {
class PipelineDrawing {
public:
  PipelineDrawing(TimelineData &timeline, const PlanSummary &summary)
      : timeline(timeline), summary(summary), prediction(*summary.prediction()) {}

  void run() {
    pipeline::PipelineTimeline simulated = simulate();
    size_t shown = std::min(prediction.stages.size(), trackLimit);
    for (uint32_t stage = 0; stage != shown; ++stage)
      addStage(stage, simulated.stages[stage].tasks);
    timeline.source = "the predicted times of the stages";
    if (prediction.microbatches > 1)
      timeline.source =
          "the schedule " +
          (prediction.schedule.empty() ? std::string(pipeline::Schedule()->name) : scheduleText(prediction)) + " of " +
          std::to_string(prediction.microbatches) + " microbatches, with " + timeline.source;
    if (shown != prediction.stages.size())
      note("the first " + std::to_string(shown) + " of " + std::to_string(prediction.stages.size()) + " stages");
    timeline.memoryTracks = timeline.tracks;
    llvm::stable_sort(timeline.events, [](const auto &a, const auto &b) { return a.begin < b.begin; });
    llvm::stable_sort(timeline.memory, [](const auto &a, const auto &b) { return a.seconds < b.seconds; });
    cutOff();
  }

private:
  pipeline::PipelineTimeline simulate() {
    std::vector<pipeline::StageTimes> times;
    for (const PlanStage &stage : prediction.stages)
      times.push_back({stage.forward, stage.backwardInput, stage.backwardWeight, stage.send});
    return pipeline::simulatePipeline(times, scheduleOf(prediction));
  }

  void note(const std::string &text) { timeline.note += (timeline.note.empty() ? "" : "; ") + text; }

  void add(uint32_t stage, Kind kind, double begin, double seconds, const std::string &label) {
    if (seconds > 0)
      timeline.events.push_back({stage, kind, begin, begin + seconds, label});
    timeline.seconds = std::max(timeline.seconds, begin + seconds);
  }

  void addStage(uint32_t index, const std::vector<TimedTask> &tasks) {
    const PlanStage &stage = prediction.stages[index];
    timeline.tracks.push_back("stage " + std::to_string(index) + ": " +
                              summary.deviceNames(summary.plan.meshes[stage.mesh].devices));
    double end = 0;
    for (const TimedTask &task : tasks) {
      addTask(index, task);
      end = std::max(end, task.end);
    }
    add(index, Kind::PerStep, end, stage.perStep, "gradients and optimizer");
    addMemory(index, tasks);
  }

  void addTask(uint32_t index, const TimedTask &task) {
    const PlanStage &stage = prediction.stages[index];
    std::string label = "microbatch " + std::to_string(task.microbatch);
    if (prediction.chunks > 1)
      label += ", chunk " + std::to_string(task.chunk);
    double part = 1.0 / prediction.chunks, input = stage.backwardInput * part, weight = stage.backwardWeight * part;
    switch (task.kind) {
    case TaskKind::Forward:
      return add(index, Kind::Forward, task.begin, stage.forward * part, label);
    case TaskKind::BackwardInput:
      return add(index, Kind::BackwardInput, task.begin, input, label);
    case TaskKind::BackwardWeight:
      return add(index, Kind::BackwardWeight, task.begin, weight, label);
    case TaskKind::Backward:
      add(index, Kind::BackwardInput, task.begin, input, label);
      return add(index, Kind::BackwardWeight, task.begin + input, weight, label);
    }
  }

  /// Activations are there from a microbatch's forward to its last gradient, the rest all the time.
  void addMemory(uint32_t index, const std::vector<TimedTask> &tasks) {
    const PlanStage &stage = prediction.stages[index];
    double one = stage.memory.activations / std::max(1u, stage.inFlight);
    std::vector<std::pair<double, double>> changes;
    for (const TimedTask &task : tasks) {
      if (task.kind == TaskKind::Forward)
        changes.emplace_back(task.begin, one);
      else if (task.kind != TaskKind::BackwardInput)
        changes.emplace_back(task.end, -one);
    }
    // What ends makes room for what begins then.
    llvm::sort(changes);
    double bytes = stage.memory.total() - stage.memory.activations;
    if (stage.memory.total() > 0)
      timeline.memory.push_back({index, 0, bytes});
    for (auto [seconds, change] : changes)
      if (one > 0)
        timeline.memory.push_back({index, seconds, bytes += change});
  }

  /// The beginning of what is too long to draw.
  void cutOff() {
    if (timeline.events.size() <= timelineEventLimit)
      return;
    double whole = timeline.seconds;
    timeline.events.resize(timelineEventLimit);
    timeline.seconds = timeline.events.back().begin;
    llvm::erase_if(timeline.memory, [&](const auto &point) { return point.seconds > timeline.seconds; });
    note("the first " + std::to_string(static_cast<int>(100 * timeline.seconds / whole)) + " % of the step");
  }

  TimelineData &timeline;
  const PlanSummary &summary;
  const Prediction &prediction;
};
} // namespace

TimelineData predictedTimeline(const PlanSummary &summary) {
  TimelineData timeline;
  const Prediction *prediction = summary.prediction();
  bool pipelined =
      prediction && (prediction->training || prediction->stages.size() > 1 || prediction->microbatches > 1);
  if (pipelined && !prediction->stages.empty())
    PipelineDrawing(timeline, summary).run();
  else
    addOperators(timeline, summary);
  return timeline;
}

} // namespace cleave::tool
