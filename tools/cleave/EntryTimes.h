// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the simulator expects of a plan's entries, for the plan to say it.

#ifndef CLEAVE_TOOLS_CLEAVE_ENTRYTIMES_H
#define CLEAVE_TOOLS_CLEAVE_ENTRYTIMES_H

#include "tools/cleave/Diagnostics.h"

#include "passes/cost/Machine.h"
#include "passes/emit/EmitPlan.h"

namespace cleave::tool {

/// By device of the plan, the bytes of an entry's arenas.
std::vector<double> arenaBytes(const runtime::Plan &plan, const runtime::Entry &entry);

/// Simulates a step of every entry of a verified plan on its machine: what `cleave simulate` says of it there. The
/// microbatches and the schedule are left to the caller. Status::Failure where the machine gives no finite time.
Expected<std::vector<EntryTimes>> timeEntries(const runtime::Plan &plan, const Machine &machine);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_ENTRYTIMES_H
