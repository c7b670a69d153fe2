// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the learning rate changes from step to step.

#ifndef CLEAVE_PASSES_TRAIN_LEARNINGRATE_H
#define CLEAVE_PASSES_TRAIN_LEARNINGRATE_H

#include "mlir/IR/Builders.h"
#include "llvm/Support/Error.h"

namespace cleave {

enum class ScheduleKind {
  Constant, ///< The rate.
  Step,     ///< The rate times gamma^floor(t / period).
  Cosine    ///< Linear warm-up, then half a cosine down to zero.
};

/// In the formulas t is the number of steps done before, from zero.
struct LearningRateOptions {
  double rate = 0.01;
  ScheduleKind kind = ScheduleKind::Constant;
  /// Step.
  int64_t period = 1;
  double gamma = 0.1;
  /// Cosine: all steps, of which the first `warmup` have the rates rate * (t + 1) / warmup, and the others rate * (1 +
  /// cos(pi * (t - warmup) / (total - warmup))) / 2; zero from `total` on. Source: Loshchilov and Hutter, SGDR, 2017
  /// (without restarts); PyTorch's LinearLR(1 / warmup, 1, warmup - 1), then CosineAnnealingLR(total - warmup).
  int64_t total = 0, warmup = 0;
};

/// The schedule for steps that are `parts` times as many: that many have the rate of one.
LearningRateOptions stretched(LearningRateOptions options, unsigned parts);

/// "constant", "step:PERIOD:GAMMA" or "cosine:TOTAL[:WARMUP]" for `rate`.
llvm::Expected<LearningRateOptions> parseSchedule(llvm::StringRef text, double rate);

/// The rate of one step as an f64 scalar, from the number of steps done (an i64 scalar).
mlir::Value buildLearningRate(mlir::OpBuilder &builder, mlir::Location location, const LearningRateOptions &options,
                              mlir::Value step);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_LEARNINGRATE_H
