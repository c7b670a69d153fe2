// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which order the stages of a graph work on the microbatches of a training step.

#ifndef CLEAVE_PASSES_TRAIN_TASKORDER_H
#define CLEAVE_PASSES_TRAIN_TASKORDER_H

#include "passes/pipeline/Schedule.h"
#include "passes/train/StageGraph.h"

namespace cleave {

/// One stage's work on one microbatch.
struct StageTask {
  pipeline::TaskKind kind = pipeline::TaskKind::Forward;
  unsigned microbatch = 0, stage = 0;
  /// Whether the microbatch is one of the next step's batch.
  bool isAhead = false;
};

/// The schedule whose order a step can have: the wanted one where the stages are a chain that passes over the meshes as
/// often as the schedule has chunks, in their order, or where it needs no chain; else 1F1B takes its place.
pipeline::Schedule possibleSchedule(const std::vector<Stage> &stages, pipeline::Schedule schedule);

/// All tasks of a step, each after those that it needs. Under a schedule that does not drain, a step of a stage begins
/// behind its last backward of the batch before: forwards of the batch that it has done there already are those of the
/// next batch, which it does at its end (the stages must be a chain, of no more stages than microbatches). What one
/// mesh runs is in the order of the possible schedule: that of pipeline::orderPipeline where the stages are a chain
/// with the schedule's chunks; else a list schedule that follows the same rule: GPipe takes forwards first, 1F1B
/// backwards first, and begins no more microbatches than there are depths from a stage to the end.
std::vector<StageTask> orderTasks(const std::vector<Stage> &stages, pipeline::Schedule schedule, unsigned microbatches);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_TASKORDER_H
