// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is certain to be over when an instruction of a queue begins, and hence which waits it needs. Vector clocks
// (Fidge 1988, Mattern 1989), as in the runtime's verifier, but built up with the instructions in their global order.

#ifndef CLEAVE_PASSES_SCHEDULE_HAPPENSBEFORE_H
#define CLEAVE_PASSES_SCHEDULE_HAPPENSBEFORE_H

#include <vector>

namespace cleave::schedule {

/// The first `value` instructions of a queue.
struct TimelinePoint {
  unsigned queue = 0, value = 0;

  bool operator==(const TimelinePoint &) const = default;
};

/// The instructions of all queues so far.
class HappensBefore {
public:
  explicit HappensBefore(unsigned numQueues) : clocks(numQueues) {}

  /// Appends an instruction to `queue` that begins after everything in `needed`, and returns what it has to wait for:
  /// at most one point a queue, none on its own queue, none that follows from the queue's order or from another wait.
  /// Points in `needed` refer to instructions that were appended before.
  std::vector<TimelinePoint> append(unsigned queue, const std::vector<TimelinePoint> &needed);

  /// Makes the last instructions of two queues one event: a send and its receive end together.
  void meet(unsigned left, unsigned right);

  /// The point that the last instruction of a queue is.
  TimelinePoint last(unsigned queue) const { return {queue, static_cast<unsigned>(clocks[queue].size())}; }

private:
  /// The number of instructions of each queue that are over.
  using Clock = std::vector<unsigned>;

  const Clock &after(TimelinePoint point) const { return clocks[point.queue][point.value - 1]; }

  /// By queue and instruction: what is over once it is over.
  std::vector<std::vector<Clock>> clocks;
};

} // namespace cleave::schedule

#endif // CLEAVE_PASSES_SCHEDULE_HAPPENSBEFORE_H
