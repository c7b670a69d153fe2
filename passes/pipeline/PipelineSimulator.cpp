// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times the tasks of a pipeline.

#include "passes/pipeline/PipelineSimulator.h"

#include <algorithm>

namespace cleave::pipeline {

//===-- summary -----------------------------------------------------------------------------------------------===//

double PipelineTimeline::longestSpan() const {
  double longest = 0;
  for (const StageTimeline &stage : stages)
    longest = std::max(longest, stage.span());
  return longest;
}

double PipelineTimeline::end() const {
  double last = 0;
  for (const StageTimeline &stage : stages)
    if (!stage.tasks.empty())
      last = std::max(last, stage.tasks.back().end);
  return last;
}

double PipelineTimeline::bubbleRate() const {
  double span = longestSpan(), busy = 0;
  for (const StageTimeline &stage : stages)
    busy += stage.busy / stages.size();
  return span > 0 ? (span - busy) / span : 0;
}

//===-- simulation --------------------------------------------------------------------------------------------===//

namespace {

class PipelineSimulator {
public:
  PipelineSimulator(const std::vector<StageTimes> &stages, Chunks chunks, const PipelineOrder &order)
      : stages(stages), chunks(chunks), order(order), next(stages.size(), 0), isWaiting(stages.size(), true),
        ready(stages.size()) {
    unsigned microbatches = 0;
    for (const auto &tasks : order)
      for (const PipelineTask &task : tasks)
        microbatches = std::max(microbatches, task.microbatch + 1);
    numParts = static_cast<unsigned>(stages.size()) * chunks.count;
    forwardArrival.assign(numParts, std::vector<double>(microbatches, never));
    backwardArrival = forwardArrival;
    forwardArrival.front().assign(microbatches, 0);
    for (size_t i = 0; i < ready.size(); ++i)
      ready[i] = i;
    timeline.stages.resize(stages.size());
  }

  PipelineTimeline run() {
    // A stage goes on until it lacks an input, and again when that is known.
    while (!ready.empty()) {
      unsigned stage = ready.back();
      ready.pop_back();
      isWaiting[stage] = false;
      while (next[stage] < order[stage].size() && runNext(stage))
        ++next[stage];
    }
    for (size_t stage = 0; stage < stages.size(); ++stage)
      if (next[stage] < order[stage].size())
        return {};
    for (StageTimeline &stage : timeline.stages)
      countInFlight(stage);
    return std::move(timeline);
  }

private:
  static constexpr double never = -1;

  bool runNext(unsigned stage) {
    const PipelineTask &task = order[stage][next[stage]];
    unsigned part = partOf(chunks.order, stage, task.chunk, static_cast<unsigned>(stages.size()));
    double input = inputOf(task, part);
    if (input == never)
      return false;
    StageTimeline &line = timeline.stages[stage];
    double begin = std::max(input, line.tasks.empty() ? 0.0 : line.tasks.back().end);
    double seconds = secondsOf(task.kind, stages[stage]) / chunks.count;
    line.tasks.push_back({task, begin, begin + seconds});
    line.busy += seconds;
    deliver(task, part, begin + seconds);
    return true;
  }

  double inputOf(const PipelineTask &task, unsigned part) const {
    switch (task.kind) {
    case TaskKind::Forward:
      return forwardArrival[part][task.microbatch];
    case TaskKind::BackwardInput:
    case TaskKind::Backward:
      return backwardArrival[part][task.microbatch];
    case TaskKind::BackwardWeight:
      return 0; // After its BackwardInput in the order.
    }
    return never;
  }

  static double secondsOf(TaskKind kind, const StageTimes &times) {
    switch (kind) {
    case TaskKind::Forward:
      return times.forward;
    case TaskKind::BackwardInput:
      return times.backwardInput;
    case TaskKind::BackwardWeight:
      return times.backwardWeight;
    case TaskKind::Backward:
      return times.backwardInput + times.backwardWeight;
    }
    return 0;
  }

  void deliver(const PipelineTask &task, unsigned part, double end) {
    unsigned stage = stageAt(part);
    auto arriveAt = [&](std::vector<std::vector<double>> &arrivals, unsigned next) {
      // Parts of one stage need no transfer between them.
      double sent = end + (stageAt(next) == stage ? 0 : stages[stage].send);
      arrive(arrivals[next][task.microbatch], sent, stageAt(next));
    };
    if (task.kind == TaskKind::Forward)
      arriveAt(part + 1 == numParts ? backwardArrival : forwardArrival, std::min(part + 1, numParts - 1));
    else if (task.kind != TaskKind::BackwardWeight && part > 0)
      arriveAt(backwardArrival, part - 1);
  }

  unsigned stageAt(unsigned part) const { return stageOf(chunks.order, part, static_cast<unsigned>(stages.size())); }

  void arrive(double &arrival, double time, unsigned stage) {
    arrival = time;
    if (!isWaiting[stage]) {
      isWaiting[stage] = true;
      ready.push_back(stage);
    }
  }

  void countInFlight(StageTimeline &stage) const {
    int kept = 0, most = 0;
    for (const TimedTask &task : stage.tasks) {
      if (task.kind == TaskKind::Forward)
        most = std::max(most, ++kept);
      else if (task.kind != TaskKind::BackwardInput)
        --kept;
    }
    stage.inFlight = static_cast<double>(most) / chunks.count;
  }

  const std::vector<StageTimes> &stages;
  Chunks chunks;
  unsigned numParts = 0;
  const PipelineOrder &order;
  std::vector<size_t> next;
  std::vector<bool> isWaiting; ///< In `ready`.
  std::vector<unsigned> ready;
  /// By part and microbatch: when the input is there; `never` while that is not known.
  std::vector<std::vector<double>> forwardArrival, backwardArrival;
  PipelineTimeline timeline;
};

} // namespace

PipelineTimeline simulateOrder(const std::vector<StageTimes> &stages, Chunks chunks, const PipelineOrder &order) {
  if (stages.empty())
    return {};
  return PipelineSimulator(stages, chunks, order).run();
}

PipelineTimeline simulatePipeline(const std::vector<StageTimes> &stages, const PipelineSchedule &schedule) {
  return simulateOrder(stages, {schedule.chunks, schedule.schedule->chunkOrder}, orderPipeline(stages, schedule));
}

} // namespace cleave::pipeline
