// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The solution of a scheduling problem: every device's instructions with their queues and waits, and a place in its
// arena for every value.

#ifndef CLEAVE_PASSES_SCHEDULE_SCHEDULE_H
#define CLEAVE_PASSES_SCHEDULE_SCHEDULE_H

#include "passes/schedule/HappensBefore.h"
#include "passes/schedule/LiveRange.h"

namespace cleave::schedule {

/// What a queue is for.
enum class QueueKind : unsigned { Compute, Send, Receive, Collective };

/// A queue of a device. There is a send queue for each device that something is sent to, and a receive queue for each
/// that something comes from, `peer`, which is the device itself where the host's memory is meant; the others have
/// none.
struct Queue {
  QueueKind kind = QueueKind::Compute;
  unsigned peer = 0;

  auto operator<=>(const Queue &) const = default;
};

/// The first queue of every device.
inline constexpr unsigned computeQueue = 0;

/// By device: its queues, ascending. The first is the compute queue; the others are those that tasks need.
std::vector<std::vector<Queue>> queuesOf(const Problem &problem);

/// A task, or one end of a transfer, on a queue of a device.
struct Instruction {
  unsigned task = 0;
  unsigned queue = computeQueue; ///< An index into DeviceSchedule::queues.
  /// Points on the device's other queues. Values count the instructions of the same list and queue, from 1.
  std::vector<TimelinePoint> waits;
  /// The position in the global order; the two ends of a transfer share it.
  unsigned order = 0;
};

struct DeviceSchedule {
  std::vector<Queue> queues;
  /// Runs once, before the first step.
  std::vector<Instruction> prepare;
  /// Runs in every step, when all queues of the device have ended the step before.
  std::vector<Instruction> body;
  uint64_t arenaBytes = 0;
  /// The largest sum of aligned sizes that are live at once.
  uint64_t liveBytes = 0;
  /// Of the host's memory.
  uint64_t hostBytes = 0;
};

struct Schedule {
  std::vector<DeviceSchedule> devices;
  /// By value, in the arena of its device or in its part of the host's memory; nothing for a value that no instruction
  /// writes.
  std::vector<std::optional<uint64_t>> offsets;
};

/// Solves the problem; nothing when tasks depend on each other in a circle. Deterministic.
///
/// The result cannot deadlock. Call a transfer's two ends one event, and a collective one. Every queue runs its
/// instructions in the global order of events, and every wait points to an event that is earlier in that order: data
/// flows forward in it, and a value takes over bytes only from values that were written earlier, whose uses are earlier
/// too, because their live ranges ended. So in the graph of events, with an edge from each event to those that follow
/// on the same queue or wait for it, all edges lead forward; it has no cycle, and some event can always happen, also
/// when a send waits for its receive. Steps follow each other a device at a time, hence the order repeats without a
/// cycle, too. The devices of a mesh run the same list: a cycle among them would be one among the lists.
std::optional<Schedule> solve(const Problem &problem);

} // namespace cleave::schedule

#endif // CLEAVE_PASSES_SCHEDULE_SCHEDULE_H
