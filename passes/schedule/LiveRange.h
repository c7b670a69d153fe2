// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From when to when a value needs its bytes, counted in instructions of its device.

#ifndef CLEAVE_PASSES_SCHEDULE_LIVERANGE_H
#define CLEAVE_PASSES_SCHEDULE_LIVERANGE_H

#include "passes/schedule/Order.h"

namespace cleave::schedule {

/// Bytes start at multiples of this.
inline constexpr uint64_t arenaAlignment = 64;

inline uint64_t alignedSize(uint64_t bytes) { return (bytes + arenaAlignment - 1) / arenaAlignment * arenaAlignment; }

/// The positions from the first to the last, both included, during which `bytes` are in use.
struct LiveRange {
  uint64_t bytes = 0;
  unsigned first = 0, last = 0;

  bool meets(const LiveRange &other) const { return first <= other.last && other.first <= last; }
};

/// The largest sum of aligned sizes that are live at one position.
uint64_t largestLiveSet(const std::vector<LiveRange> &ranges);

/// The tasks of the two phases in their global order; transfers stand once.
struct PhaseOrders {
  std::vector<unsigned> prepare;
  Timetable body;
};

/// The range of every value; nothing for a value that no task of the orders writes. Positions count the instructions
/// of the value's device: those of prepare first, then those of the body.
/// A value is live from its writer to the last instruction that starts before its last reader is expected to finish,
/// so that what another queue still reads is not waited for at once. A value that is received is live from when the
/// sender is expected to have it: where transfers are faster than expected, it has its bytes, and does not wait for
/// what is still in them. A value that prepare writes and the body reads is live to the end.
std::vector<std::optional<LiveRange>> liveRanges(const Problem &problem, const PhaseOrders &orders);

} // namespace cleave::schedule

#endif // CLEAVE_PASSES_SCHEDULE_LIVERANGE_H
