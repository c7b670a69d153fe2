// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stages as text: "node1..node31:3,node32..node41:1", ranges of a topological order with their numbers of replicas.

#ifndef CLEAVE_TOOLS_CLEAVE_STAGERANGES_H
#define CLEAVE_TOOLS_CLEAVE_STAGERANGES_H

#include "passes/planner/stages/CostGraph.h"
#include "tools/cleave/Diagnostics.h"

#include <string>
#include <vector>

namespace cleave::tool {

/// Stages whose `first`, `last` and `devices` are those of the text; the devices follow each other in one run. An error
/// unless the ranges hold every operator once, in order, and there are so many devices.
Expected<std::vector<stages::Stage>> parseStageRanges(llvm::StringRef text, const stages::CostGraph &graph,
                                                      unsigned numDevices);

/// The text of stages.
std::string stageRangesText(const std::vector<stages::Stage> &stages, const stages::CostGraph &graph);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_STAGERANGES_H
