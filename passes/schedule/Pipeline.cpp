// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the schedule stage.

#include "passes/schedule/Pipeline.h"

#include "passes/distribute/Passes.h"
#include "passes/schedule/Passes.h"

#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace cleave {

void buildSchedulePipeline(OpPassManager &manager) {
  // Kernels read parameters where their last operator stood: updates follow them.
  manager.addPass(createAdvanceUpdatesPass());
  // One pass: order decides live ranges, live ranges places, and places the waits for values that others replace.
  manager.addPass(createScheduleProgramsPass());
}

void registerSchedulePipeline() {
  static PassPipelineRegistration<> registration("schedule", "Programs of launches to queues and places in memory",
                                                 buildSchedulePipeline);
}

} // namespace cleave
