// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a stage computes again so that it fits into memory, segment by segment. Each segment (a piece of the search)
// keeps its activations, or all but the results of contractions are computed again, or everything is, or they are moved
// to the host's memory: a multiple-choice knapsack of seconds under a limit of bytes.
//
//   memory   │none none none│none none none│   all are kept
//   ─────────┼──────────────┼──────────────┤
//            │full full full│none none none│   what fits with the least seconds
//   ─────────┼──────────────┼──────────────┤
//            │full full full│full full full│   one way for all segments leaves memory unused
//
// What is computed again is there in full while its segment's gradients are computed, one segment at a time, so that
// the largest one counts beside what is kept.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_RECOMPUTING_H
#define CLEAVE_PASSES_PLANNER_SEARCH_RECOMPUTING_H

#include "passes/planner/search/Intervals.h"

#include <limits>

namespace cleave::search {

/// What ways to get activations amount to.
struct Recomputation {
  double seconds = 0;   ///< Of a microbatch's backward pass.
  double host = 0;      ///< Seconds of the host.
  double bytes = 0;     ///< That a microbatch keeps.
  double transient = 0; ///< Bytes beside the largest operator's, while a microbatch is worked on.
  double offloaded = 0; ///< Bytes that a microbatch keeps in the host's memory.
};

/// What the way to the host's memory adds to a microbatch: where bytes take longer, each way, than the pass beside
/// which they move.
struct OffloadDelay {
  double forward = 0, backward = 0;
  double seconds() const { return forward + backward; }
};
/// `moving`: seconds of the bytes one way; the others are what the passes take without.
OffloadDelay offloadDelay(double moving, double forward, double backward);

/// Bytes of activations that a microbatch keeps for its backward pass; `checkpoints`: with what is kept to compute
/// others again.
double keptBytes(const IntervalSums &sums, Recompute recompute, bool checkpoints = true);

/// Bytes of what enters a piece that keeps all, where the piece before it computes that again: no other piece counts
/// them.
double bytesBehind(const IntervalSums &piece, Recompute own, Recompute before);

/// Of one way for all pieces of an interval.
Recomputation recomputationOf(const IntervalSums &sums, Recompute recompute);
/// Of pieces in a row that do it in different ways, one each, with bytesBehind.
Recomputation recomputationOf(llvm::ArrayRef<IntervalSums> pieces, llvm::ArrayRef<Recompute> byPiece);
/// Of either: by piece where these differ.
Recomputation recomputationOf(const IntervalSums &sums, llvm::ArrayRef<IntervalSums> pieces,
                              llvm::ArrayRef<Recompute> byPiece);

/// No ways of pieces within `memory` (as for recomputeToFit) take fewer seconds a microbatch: the linear relaxation of
/// the knapsack, without transients. Infinity where nothing fits. `offload` as for recomputeToFit: what moves to the
/// host's memory counts as free.
double leastRecomputeSeconds(llvm::ArrayRef<IntervalSums> pieces, double memory, double inFlight = 1,
                             double offload = 0);

/// The ways of pieces in a row that take the least seconds while `inFlight` times the bytes that are kept, and what is
/// there beside, are at most `memory` bytes. Empty where nothing fits that takes less than `mostSeconds`.
///
/// For each size of the largest piece that is computed again a multiple-choice knapsack, solved by dynamic programming
/// over undominated pairs of bytes and seconds (Nemhauser and Ullmann, Discrete Dynamic Programming and Capital
/// Allocation, 1969), without those that a Lagrangian bound rules out (Kellerer, Pferschy, Pisinger, Knapsack Problems,
/// 2004, chapter 11). Exact for bytes that are whole numbers (others count as the next one), unless more than 1,024
/// pairs are left behind a piece. Then one is kept for each 1,024th of the memory: n pieces take no more seconds than
/// the best ways in n / 1,024 of the memory less.
///
/// `offload`: seconds of a byte's way to the host's memory; 0: nothing moves there. What moves hides beside
/// computation, so that only all of it together has a delay (offloadDelay), which is no sum: each price of a second of
/// the way makes a knapsack, and the best of what these find is taken. It need not be the best there is.
std::vector<Recompute> recomputeToFit(llvm::ArrayRef<IntervalSums> pieces, double memory, double inFlight = 1,
                                      double mostSeconds = std::numeric_limits<double>::infinity(), double offload = 0);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_RECOMPUTING_H
