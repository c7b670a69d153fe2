// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When each task of a pipeline runs, if every stage keeps to its order and begins a task as soon as it has its input.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_PIPELINESIMULATOR_H
#define CLEAVE_PASSES_PLANNER_STAGES_PIPELINESIMULATOR_H

#include "passes/planner/stages/PipelineOrder.h"

namespace cleave::stages {

struct TimedTask : PipelineTask {
  double begin = 0, end = 0; ///< Seconds from the first begin of all.
};

struct StageTimeline {
  std::vector<TimedTask> tasks;
  double busy = 0; ///< Seconds of its tasks.
  /// The most microbatches whose activations are kept at once: from the begin of the forward to the end of the last
  /// gradient. A part of a stage keeps its part of them.
  double inFlight = 0;

  double span() const { return tasks.empty() ? 0 : tasks.back().end - tasks.front().begin; }
};

struct PipelineTimeline {
  std::vector<StageTimeline> stages;

  /// The longest span of a stage, from its first begin to its last end: in a training run, where the next step begins
  /// as soon as a stage is done, what a step takes (Qi et al. 2024).
  double longestSpan() const;
  /// From the first begin of all to the last end of all.
  double end() const;
  /// The part of the longest span that stages are idle, on average: (span - M (F + B + W)) / span for equal stages.
  double bubbleRate() const;
};

/// Runs an order. Every microbatch passes parts of stages in order and returns in reverse order; orders in which tasks
/// wait for each other in a circle end with an empty timeline.
PipelineTimeline simulateOrder(const std::vector<StageTimes> &stages, unsigned chunks, const PipelineOrder &order);

/// Runs a schedule.
PipelineTimeline simulatePipeline(const std::vector<StageTimes> &stages, const PipelineSchedule &schedule);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_PIPELINESIMULATOR_H
