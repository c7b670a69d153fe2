// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What training minimises: appended to the forward graph, before operators are placed.

#ifndef CLEAVE_PASSES_TRAIN_LOSS_H
#define CLEAVE_PASSES_TRAIN_LOSS_H

#include "dialects/dfg/Dfg.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace cleave {

enum class LossKind {
  CrossEntropy,     ///< Of softmax and integer labels.
  MeanSquaredError, ///< Of an output and a target of its type.
  Output            ///< An output of the model itself; the mean of its elements where it has several.
};

struct LossOptions {
  LossKind kind = LossKind::CrossEntropy;
  /// The output that the loss is of; empty: the model's first one.
  std::string output;
  /// The name of the input that is added; empty: "labels" for cross-entropy, "target" for the mean squared error.
  std::string labels;
  /// Cross-entropy: the dimension of classes. Where it is not given: that of the softmax at the model's end; else the
  /// last dimension of outputs of three (samples, positions, words), and dimension 1 of all others (samples, classes,
  /// rows, columns).
  std::optional<int64_t> classes;
  /// Cross-entropy: a label that counts for nothing, as all labels do that are no class; the mean is then over the
  /// others. Where it is not given: over all labels.
  std::optional<int64_t> ignoreIndex;
};

/// "cross-entropy", "mse", or the name of an output; behind it ",output=NAME", ",labels=NAME", ",classes=DIM" and
/// ",ignore-index=LABEL".
llvm::Expected<LossOptions> parseLoss(llvm::StringRef text);

struct LossValues {
  /// A scalar of f32: the mean over all samples, and positions where each has a label.
  mlir::Value loss;
  /// Cross-entropy only: an i64 scalar, how many labels have the largest score, the first one among equals.
  mlir::Value correct;
  /// With an ignored label only: an i64 scalar, how many labels count.
  mlir::Value count;
  /// The position of the input that was added.
  std::optional<unsigned> labelsInput;
};

/// Appends the loss to a forward graph, and makes it the graph's output, named "loss"; with cross-entropy a second
/// output is named "correct", and where a label is ignored a third one "count" (countsAttrName). What only other
/// outputs needed is removed.
///
/// Cross-entropy: the labels are i64, in the output's shape without the dimension of classes. A label that is no class,
/// as -1, adds nothing to sum and gradient; the mean is over all labels nevertheless, so that the mean of equal parts'
/// losses is that of the whole. With LossOptions::ignoreIndex the mean is over the labels that count, as ONNX and
/// PyTorch define it; where none does, the loss is 0. Where the output is the result of softmax or its logarithm the
/// loss is computed from what goes in. Only reductions see the classes, so that they can be cut.
///
/// Fails, with a diagnostic, where the output is missing or does not fit.
llvm::FailureOr<LossValues> addLoss(dfg::GraphOp graph, const LossOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_LOSS_H
