// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle of the scheduling tests: says what is wrong with a schedule, by a transitive closure over all events
// instead of clocks, and by comparing all pairs of values instead of tracking bytes.

#ifndef CLEAVE_TEST_PASSES_SCHEDULE_SCHEDULECHECKER_H
#define CLEAVE_TEST_PASSES_SCHEDULE_SCHEDULECHECKER_H

#include "passes/schedule/Schedule.h"

#include <string>

namespace cleave::schedule {

/// The first rule that the schedule breaks, or "".
std::string findFault(const Problem &problem, const Schedule &schedule);

/// The end of the last queue, in seconds, when every task takes its estimated time and waits for what it must.
double makespan(const Problem &problem, const Schedule &schedule);

} // namespace cleave::schedule

#endif // CLEAVE_TEST_PASSES_SCHEDULE_SCHEDULECHECKER_H
