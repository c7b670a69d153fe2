// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention of a program takes with its keys in a ring, and with gathered ones.

#ifndef CLEAVE_PASSES_DISTRIBUTE_KEYRINGCOST_H
#define CLEAVE_PASSES_DISTRIBUTE_KEYRINGCOST_H

#include "passes/cost/CostAnalysis.h"
#include "passes/cost/KeyExchangeCost.h"
#include "passes/distribute/KeyRing.h"

namespace cleave {

/// Both ways on the module's machine, for an attention with its gradient, if any. Where processors compute the
/// attention of all keys in one kernel (streamsScores), its scores are never in memory; those of chunks are.
KeyTimes keyTimes(KeyRing &ring, CostAnalysis &costs, dist::MeshOp mesh, bool onProcessors);

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_KEYRINGCOST_H
