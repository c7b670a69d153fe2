// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the simulator expects of a plan's entries, for the plan to say it.

#ifndef CLEAVE_COMPILER_ENTRYTIMES_H
#define CLEAVE_COMPILER_ENTRYTIMES_H

#include "compiler/Messages.h"

#include "passes/cost/Machine.h"
#include "passes/emit/EmitPlan.h"

namespace cleave {

/// By device of the plan, the bytes of an entry's arenas.
std::vector<double> arenaBytes(const runtime::Plan &plan, const runtime::Entry &entry);

/// By device of the plan, the bytes of its arenas: for a mesh as many as the largest of the mesh's programs takes,
/// whichever entry it is of.
std::vector<double> arenaBytes(const runtime::Plan &plan);

/// Simulates a step of every entry of a verified plan on its machine: what `cleave simulate` says of it there. The
/// microbatches and the schedule are left to the caller. Status::Failure where the machine gives no finite time.
Expected<std::vector<EntryTimes>> timeEntries(const runtime::Plan &plan, const Machine &machine, Messages &messages);

} // namespace cleave

#endif // CLEAVE_COMPILER_ENTRYTIMES_H
