// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which order the stages of a graph work on the microbatches of a training step.

#ifndef CLEAVE_PASSES_TRAIN_TASKORDER_H
#define CLEAVE_PASSES_TRAIN_TASKORDER_H

#include "passes/planner/stages/PipelineOrder.h"
#include "passes/train/StageGraph.h"

namespace cleave {

/// One stage's work on one microbatch.
struct StageTask {
  stages::TaskKind kind = stages::TaskKind::Forward;
  unsigned microbatch = 0, stage = 0;
};

/// The schedule whose order a step can have: `Interleaved` only where the stages pass over the meshes several times in
/// the same order, those with zero bubbles where they pass once; else 1F1B takes their place.
stages::Schedule possibleSchedule(const std::vector<Stage> &stages, stages::Schedule schedule);

/// All tasks of a step, each behind those that it needs. What one mesh runs is in the order of the possible schedule:
/// that of stages::orderPipeline where the stages are a chain over the meshes (or pass over them several times in the
/// same order, for `Interleaved`); else a list schedule that follows the same rule: GPipe takes forwards first, 1F1B
/// backwards first, and begins no more microbatches than there are depths behind a stage.
std::vector<StageTask> orderTasks(const std::vector<Stage> &stages, stages::Schedule schedule, unsigned microbatches);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_TASKORDER_H
