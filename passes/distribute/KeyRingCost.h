// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention takes with its keys in a ring, and with gathered ones.

#ifndef CLEAVE_PASSES_DISTRIBUTE_KEYRINGCOST_H
#define CLEAVE_PASSES_DISTRIBUTE_KEYRINGCOST_H

#include "passes/cost/CostAnalysis.h"
#include "passes/distribute/KeyRing.h"

namespace cleave {

/// Seconds of an attention with its gradient, if any, on devices of a mesh that all do the same: computing, and what of
/// communication nothing hides.
struct KeyTimes {
  double gathered = 0, ring = 0;
};

/// Seconds to compute with one chunk after the other, of two `steps` or more that take `chunk` seconds each, and `join`
/// with what was there before, while the next one is on its way for `hop` seconds. A device has its own chunk from the
/// beginning; it passes one on when it has it and is done with the one before.
inline double ringSeconds(int64_t steps, double chunk, double join, double hop) {
  return std::max(chunk, hop) + static_cast<double>(steps - 2) * std::max(chunk + join, hop) + chunk + join;
}

/// Both ways on the module's machine. Gathers and reductions are waited for; the operators of a chunk take that share
/// of what those of all keys take. Where processors compute the attention of all keys in one kernel (streamsScores),
/// its scores are never in memory; those of chunks are.
KeyTimes keyTimes(KeyRing &ring, CostAnalysis &costs, dist::MeshOp mesh, bool onProcessors);

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_KEYRINGCOST_H
