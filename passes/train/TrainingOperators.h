// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that are others in training, in a graph that is placed already.

#ifndef CLEAVE_PASSES_TRAIN_TRAININGOPERATORS_H
#define CLEAVE_PASSES_TRAIN_TRAININGOPERATORS_H

#include "dialects/dfg/Dfg.h"

namespace cleave {

struct TrainingOperatorOptions {
  /// What the random numbers of dropout follow from.
  uint64_t seed = 0;
  /// Whether batch normalization takes its statistics of the whole batch (of a microbatch), and not of each device's
  /// part of it.
  bool synchronizedBatchNorm = false;
};

/// Replaces batch normalization and dropout of a placed forward graph by what they are in training
/// (BatchNormTraining.h, Dropout.h), on the meshes and in the splits of the operators that they stand for. What is not
/// trained, as evaluation, keeps a copy of the graph from before. Fails, with a diagnostic, where a place does not fit
/// its operator.
mlir::LogicalResult replaceTrainingOperators(dfg::GraphOp graph, const TrainingOperatorOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_TRAININGOPERATORS_H
