// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a schedule as plan.program operations.

#ifndef CLEAVE_PASSES_SCHEDULE_PLANPROGRAMWRITER_H
#define CLEAVE_PASSES_SCHEDULE_PLANPROGRAMWRITER_H

#include "passes/schedule/ProgramTasks.h"
#include "passes/schedule/Schedule.h"

namespace cleave {

/// Puts a plan.program with what the schedule says about `device` in the place of its dist.program, under the same
/// name.
void writePlanProgram(const ProgramTasks &tasks, const schedule::Schedule &schedule, unsigned device);

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_PLANPROGRAMWRITER_H
