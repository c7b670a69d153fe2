// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When each task of a pipeline runs, if every stage keeps to its order and begins a task as soon as it has its input.

#ifndef CLEAVE_PASSES_PIPELINE_PIPELINESIMULATOR_H
#define CLEAVE_PASSES_PIPELINE_PIPELINESIMULATOR_H

#include "passes/pipeline/Schedule.h"

namespace cleave::pipeline {

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

/// The chunks of stages, and which parts of the model they are.
struct Chunks {
  unsigned count = 1;
  ChunkOrder order = ChunkOrder::Rounds;
};

/// Runs an order. Every microbatch passes the parts of the model in order and returns in reverse order; a stage's
/// chunks take equal parts of its times. Orders in which tasks wait for each other in a circle end with an empty
/// timeline.
PipelineTimeline simulateOrder(const std::vector<StageTimes> &stages, Chunks chunks, const PipelineOrder &order);

/// Runs a schedule.
PipelineTimeline simulatePipeline(const std::vector<StageTimes> &stages, const PipelineSchedule &schedule);

} // namespace cleave::pipeline

#endif // CLEAVE_PASSES_PIPELINE_PIPELINESIMULATOR_H
