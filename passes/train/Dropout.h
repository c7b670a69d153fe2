// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dropout in training.

#ifndef CLEAVE_PASSES_TRAIN_DROPOUT_H
#define CLEAVE_PASSES_TRAIN_DROPOUT_H

#include "dialects/dfg/Dfg.h"

#include "mlir/IR/Builders.h"

namespace cleave {

/// Builds, at the builder's insertion point, what takes the place of a dropout in training, and returns its result: an
/// element is zero with the operator's probability, else divided by what is left of one.
///
/// Which elements these are follows from `seed`, the operator's node, how many samples it has seen in training, and the
/// element's position: not from how the graph is divided over devices or the batch into microbatches. Samples are
/// counted by a parameter of state, "NODE/dropout" of the operator's node, which the graph reads and writes; so a run
/// that is resumed goes on with the same numbers. Samples lie in dimension 0.
mlir::Value buildTrainingDropout(mlir::OpBuilder &builder, dfg::DropoutOp dropout, uint64_t seed);

/// Replaces all dropouts of a graph by what they are in training.
void expandDropout(dfg::GraphOp graph, uint64_t seed);

/// Replaces all dropouts of a graph by their inputs.
void removeDropout(dfg::GraphOp graph);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_DROPOUT_H
