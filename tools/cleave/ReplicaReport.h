// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What commands say of a plan's replicas.

#ifndef CLEAVE_TOOLS_CLEAVE_REPLICAREPORT_H
#define CLEAVE_TOOLS_CLEAVE_REPLICAREPORT_H

#include "compiler/ReplicaTimes.h"

#include "llvm/Support/raw_ostream.h"

namespace cleave::tool {

/// Reads "R:F". Status::Usage.
Expected<Slowdowns> parseSlowdowns(const std::vector<std::string> &texts, const runtime::Replicas &replicas);

/// "4 replicas, none more than 3 steps ahead of the slowest".
std::string replicasText(const runtime::Replicas &replicas);

/// "on the devices of the first", "in shards on cpu4 (1.5 MiB), cpu5 (1.4 MiB)": where the parameters are kept, and how
/// much of them and of the optimizer's state.
std::string keeperText(const runtime::PlanContents &plan);

/// Says in some lines what is expected of the replicas, beside what it would be if they stepped together.
Error printReplicas(llvm::raw_ostream &out, const runtime::Plan &plan, const Machine &machine,
                    const Slowdowns &slowdowns);

/// The same where all are as fast as expected, and what it costs if one is not.
Error explainReplicas(llvm::raw_ostream &out, const runtime::Plan &plan, const Machine &machine);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_REPLICAREPORT_H
