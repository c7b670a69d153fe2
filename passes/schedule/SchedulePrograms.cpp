// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules all programs of a module together.

#include "passes/schedule/Passes.h"

#include "passes/schedule/PlanProgramWriter.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_SCHEDULEPROGRAMSPASS
#include "passes/schedule/Passes.h.inc"

namespace {

class SchedulePrograms : public impl::ScheduleProgramsPassBase<SchedulePrograms> {
  void runOnOperation() override {
    FailureOr<ProgramTasks> tasks = ProgramTasks::read(getOperation(), getAnalysis<CostAnalysis>());
    if (failed(tasks))
      return signalPassFailure();
    // Transfers stand in the order of their channels in every program (dist.program verifies it), so there is an order.
    std::optional<schedule::Schedule> schedule = schedule::solve(tasks->getProblem());
    if (!schedule) {
      getOperation().emitError("programs expect every receive to follow from its send, got a cycle");
      return signalPassFailure();
    }
    for (unsigned device = 0; device != tasks->getPrograms().size(); ++device)
      writePlanProgram(*tasks, *schedule, device);
  }
};

} // namespace
} // namespace cleave
