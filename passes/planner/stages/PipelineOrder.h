// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which order each stage of a pipeline works on its tasks: one row a schedule.
//
//   F forward, B gradient of the input, W gradient of the weights; without zero bubbles B and W are one task.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_PIPELINEORDER_H
#define CLEAVE_PASSES_PLANNER_STAGES_PIPELINEORDER_H

#include "passes/planner/stages/Schedule.h"

#include <cstdint>
#include <vector>

namespace cleave::stages {

/// What one microbatch takes in one stage, in seconds.
struct StageTimes {
  double forward = 0, backwardInput = 0, backwardWeight = 0;
  /// Until what a task sends arrives at the next stage, or at the one before. It delays nothing else.
  double send = 0;

  double sum() const { return forward + backwardInput + backwardWeight; }
};

/// A schedule with its parameters.
struct PipelineSchedule {
  Schedule schedule = Schedule::OneForwardOneBackward;
  unsigned microbatches = 1;
  /// Interleaved: the parts of each stage. Part c of stage i is the model's part c * stages + i.
  unsigned chunks = 1;
  /// ZeroBubbleAutomatic: by stage, the microbatches whose activations it may keep; at least one. Empty: as many as
  /// there are stages.
  std::vector<unsigned> memoryLimits = {};
};

enum class TaskKind : uint8_t { Forward, BackwardInput, BackwardWeight, Backward /**< Both gradients. */ };

struct PipelineTask {
  TaskKind kind = TaskKind::Forward;
  uint32_t microbatch = 0;
  uint32_t chunk = 0;
};

/// By stage: its tasks in order.
using PipelineOrder = std::vector<std::vector<PipelineTask>>;

/// The order of a schedule. Times matter to ZeroBubbleAutomatic alone.
///
///   GPipe        F for all microbatches, then backward for all (Huang et al. 2019)
///   1F1B         stage i of p: p - i - 1 F, then F and backward in turns (Narayanan et al. 2019)
///   Interleaved  the same over the parts of stages, in groups of p microbatches (Narayanan et al. 2021)
///   ZB-H1, -H2   stage i: (p - i - 1) k + 1 F, then B and F in turns, W after k i more B; k is 1 or 2 (Qi et al. 2024)
///   ZB-auto      the best of several orders within the limit of memory (ZeroBubbleOrder.h)
PipelineOrder orderPipeline(const std::vector<StageTimes> &stages, const PipelineSchedule &schedule);

/// ZB-H1 and ZB-H2, and those between: stage i begins with `forwards[i]` F, does W `delays[i]` B later than it could,
/// and then alternates.
PipelineOrder orderWithDelays(const std::vector<unsigned> &forwards, const std::vector<unsigned> &delays,
                              unsigned microbatches);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_PIPELINEORDER_H
