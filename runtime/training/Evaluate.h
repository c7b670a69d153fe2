// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loss and accuracy of a model on data, with nothing learned.

#ifndef CLEAVE_RUNTIME_TRAINING_EVALUATE_H
#define CLEAVE_RUNTIME_TRAINING_EVALUATE_H

#include "runtime/training/BatchRunner.h"

namespace cleave::runtime {

struct EvaluationResult {
  double loss = 0;                ///< the mean over all samples, or over their labels where those are counted
  std::optional<double> accuracy; ///< the share of labels that are predicted; only where the loss is of labels
  uint64_t samples = 0;
  bool isText = false; ///< TrainingData::isText
  double seconds = 0;
};

/// Runs the entries that evaluate on every sample of the data, each counted once. Samples that do not fill a
/// batch are followed by the first of them: where the loss is of labels, with labels that count for nothing; elsewhere
/// a further step, on a batch of that sample alone, gives what to take away, which is exact where a sample's loss does
/// not depend on the others of its batch. Nothing where a signal ends the run before (TrainContext::stopSignal).
Expected<std::optional<EvaluationResult>> evaluate(const TrainContext &context, const TrainingData &data,
                                                   unsigned inFlight);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_EVALUATE_H
