// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The learning rate's schedule (runtime/training/RateSchedule.h) as operators on the step counter.

#ifndef CLEAVE_PASSES_TRAIN_LEARNINGRATE_H
#define CLEAVE_PASSES_TRAIN_LEARNINGRATE_H

#include "runtime/training/RateSchedule.h"

#include "mlir/IR/Builders.h"

namespace cleave {

using runtime::RateSchedule;

/// The rate of one step as an f64 scalar, computed in f64, from the schedule's numbers in the order of
/// runtime::rateParameters (f64 scalars) and the number of steps done (an i64 scalar).
mlir::Value buildLearningRate(mlir::OpBuilder &builder, mlir::Location location, llvm::ArrayRef<mlir::Value> numbers,
                              mlir::Value step);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_LEARNINGRATE_H
