// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Batch normalization in training: by the statistics of the batch, which the running ones follow.

#ifndef CLEAVE_PASSES_TRAIN_BATCHNORMTRAINING_H
#define CLEAVE_PASSES_TRAIN_BATCHNORMTRAINING_H

#include "dialects/dfg/Dfg.h"

#include "mlir/IR/Builders.h"

namespace cleave {

/// Builds, at the builder's insertion point, what takes the place of a batch normalization in training, and returns its
/// result.
///
/// The samples are normalized in `groups` groups of equal size that follow each other, each by its own mean and
/// (biased) variance, computed in two passes. As many groups as devices hold parts of the batch is what frameworks do
/// by default: nothing is communicated, for the reductions lie inside of the parts. One group is synchronized batch
/// normalization. Where the samples do not divide into the groups there is one.
///
/// Running statistics that are read from a parameter get a dfg.write: momentum times what they were, plus the rest
/// times the mean over groups of the batch's, the variance with the divisor n - 1. This is PyTorch's batch
/// normalization; its `momentum` is one minus ONNX's, which the operator has. Where operators share their statistics,
/// the later one goes on from what the earlier one wrote: build them in the graph's order. In a step of several
/// microbatches each has its own statistics, and the running ones follow one after the other.
///
/// Sources: Ioffe and Szegedy: Batch Normalization, 2015; PyTorch, torch.nn.BatchNorm2d and SyncBatchNorm.
mlir::Value buildTrainingBatchNorm(mlir::OpBuilder &builder, dfg::BatchNormOp norm, int64_t groups);

/// Replaces all batch normalizations of a graph, each in the number of groups that `groupsOf` says.
void normalizeByBatch(dfg::GraphOp graph, llvm::function_ref<int64_t(dfg::BatchNormOp)> groupsOf);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_BATCHNORMTRAINING_H
