// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives values places in an arena: values that are live at the same time get different bytes, and the arena is small.

#ifndef CLEAVE_PASSES_SCHEDULE_ARENAPLANNER_H
#define CLEAVE_PASSES_SCHEDULE_ARENAPLANNER_H

#include "passes/schedule/LiveRange.h"

namespace cleave::schedule {

struct ArenaPlan {
  /// By range, multiples of arenaAlignment.
  std::vector<uint64_t> offsets;
  /// What the arena needs: the end of the last aligned range.
  uint64_t bytes = 0;
};

/// Offsets for all ranges. Dynamic storage allocation is NP-hard, so this takes the best of several orders: bottom up
/// along the skyline, the longest-lived range first (Sekiyama et al. 2018, "Profile-guided memory optimization for deep
/// neural networks"); by size (Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net Inference"); by
/// size times lifetime; by beginning; by lifetime. Each range goes to the smallest gap that takes it. Then rounds of a
/// search move whatever tops the arena forward in the order, with a generator of fixed seed. Stops as soon as the
/// largest live set, which no plan can beat, is reached. The result depends on the ranges alone. Time: O(n^2) a round,
/// and few rounds where n is large.
ArenaPlan planArena(const std::vector<LiveRange> &ranges);

/// Places the ranges in the given order, each into the smallest gap between ranges of the same time.
ArenaPlan placeInOrder(const std::vector<LiveRange> &ranges, const std::vector<unsigned> &order);

} // namespace cleave::schedule

#endif // CLEAVE_PASSES_SCHEDULE_ARENAPLANNER_H
