// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a plan's decision about training costs on another machine than the one that it was made for.

#ifndef CLEAVE_TOOLS_CLEAVE_DECISIONCOST_H
#define CLEAVE_TOOLS_CLEAVE_DECISIONCOST_H

#include "compiler/CompileModel.h"
#include "tools/cleave/Diagnostics.h"

namespace cleave::tool {

/// Whether nothing in the entry computes, as what is to be computed was only decided.
bool isDecision(const runtime::Entry &entry);

/// Reads the plan's model again, and compiles it for the first devices of `machine` with the stages, splits and
/// microbatches of the entry, which has no programs: a plan whose prediction is the search's of that machine.
/// Status::Usage where the machine has fewer devices, or where the plan or its model do not say enough;
/// Status::Infeasible where the memory does not suffice there.
Expected<CompiledModel> costDecision(const runtime::Plan &plan, const runtime::Entry &entry,
                                     const std::string &machine);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_DECISIONCOST_H
