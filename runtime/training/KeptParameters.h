// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parameters and optimizer state that a plan's steps write: out of an executor, and into another.

#ifndef CLEAVE_RUNTIME_TRAINING_KEPTPARAMETERS_H
#define CLEAVE_RUNTIME_TRAINING_KEPTPARAMETERS_H

#include "runtime/training/BatchRunner.h"
#include "runtime/training/Checkpoint.h"

#include <set>

namespace cleave::runtime {

/// The parameters that the entry keeps from step to step, by their indices in the plan.
std::set<uint32_t> keptParameters(const Entry &entry);

/// What the names of parameters begin with that hold what is in a pipeline between two steps. Where training pauses,
/// the pipeline is drained, and they mean nothing.
inline constexpr std::string_view pipelinePrefix = "train/pipeline/";

/// The parameters that a checkpoint needs: those that the entry keeps, but for what is in a pipeline.
std::set<uint32_t> checkpointParameters(const PlanContents &plan, const Entry &entry);

/// Those of them that are the model's, not the optimizer's: the optimizer's are called as one of the others with "/"
/// and something behind it, or "train/" and something.
std::set<uint32_t> modelParameters(const PlanContents &plan, const std::set<uint32_t> &kept);

/// Reads parameters of the executor's first entry, whole. Called by all processes together; only the first gets
/// tensors.
Expected<std::vector<NamedTensor>> readParameters(const TrainContext &context, const std::set<uint32_t> &parameters);

/// Gives the entry's parameters that a checkpoint needs the checkpoint's values, which must outlive `source`.
/// Status::Failure when one is missing or has another type; `notice` gets a text if the checkpoint has more than the
/// plan takes.
Error restore(const PlanContents &plan, const Entry &entry, const Checkpoint &checkpoint, ValueSource &source,
              std::string &notice);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_KEPTPARAMETERS_H
