// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The schedule stage as a whole.

#ifndef CLEAVE_PASSES_SCHEDULE_PIPELINE_H
#define CLEAVE_PASSES_SCHEDULE_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace cleave {

/// Appends the stage's passes, on a module. Input: dist.program with kernel launches only; output: plan.program in
/// their place.
void buildSchedulePipeline(mlir::OpPassManager &manager);

/// Makes the pipeline known to cleave-opt as `--schedule`.
void registerSchedulePipeline();

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_PIPELINE_H
