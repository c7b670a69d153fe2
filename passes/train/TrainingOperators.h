// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that are others in training, in a graph that is placed already.

#ifndef CLEAVE_PASSES_TRAIN_TRAININGOPERATORS_H
#define CLEAVE_PASSES_TRAIN_TRAININGOPERATORS_H

#include "dialects/dfg/Dfg.h"

#include <optional>

namespace cleave {

/// Of what batch normalization takes its statistics in training.
enum class BatchStatistics {
  Device,       ///< Of each device's part of a microbatch, where these are equal: nothing is communicated.
  Synchronized, ///< Of the whole microbatch.
  Running       ///< None: the running statistics, which stay as they are.
};

struct TrainingOperatorOptions {
  BatchStatistics statistics = BatchStatistics::Device;
  /// Whether dropout drops; else it is its input.
  bool drops = true;
  /// What the random numbers of dropout follow from.
  uint64_t seed = 0;
  /// With BatchStatistics::Device, of how many parts of a microbatch each batch normalization takes its statistics, in
  /// the graph's order; empty: of those that devices have.
  std::vector<int64_t> groups = {};
};

/// "device", "synchronized" or "running".
std::optional<BatchStatistics> findStatistics(llvm::StringRef name);

/// Replaces batch normalization and dropout of a placed forward graph by what they are in training
/// (BatchNormTraining.h, Dropout.h), on the meshes and in the splits of the operators that they stand for. What is not
/// trained, as evaluation, keeps a copy of the graph from before. Fails, with a diagnostic, where a place does not fit
/// its operator. `groups` gets the parts of a microbatch of each batch normalization whose statistics are
/// BatchStatistics::Device's.
mlir::LogicalResult replaceTrainingOperators(dfg::GraphOp graph, const TrainingOperatorOptions &options,
                                             std::vector<int64_t> *groups = nullptr);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_TRAININGOPERATORS_H
