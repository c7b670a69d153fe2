// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which a phase of an entry can happen: which instruction is certain to be over before which other begins,
// given queue order, waits, and sends that meet their receives. A phase without such an order deadlocks.
//
// Everything is decided on programs, not on the devices that run them. All devices of a mesh run the same list, so an
// exchange or a reduction is one event of its program, and a send and its receive, which end together and move bytes
// only when both have begun, are one event of two programs. What devices wait for is never more than what these events
// wait for, and queues run without choice: a circle of waiting devices is, device by device, a circle of events. Hence
// a phase whose events have no circle cannot deadlock on any number of devices. (Between single devices the opposite
// holds as well.)
//
// Precedence is answered with vector clocks (Fidge 1988, Mattern 1989) over a program's queues: clock[q] is the number
// of instructions of queue q that are certain to be over on a device before the same device begins the instruction. An
// order that comes back through another program is known only if both programs have one device: of several, the one
// that got something from here need not be the one that gave something back.

#ifndef CLEAVE_RUNTIME_HAPPENSBEFORE_H
#define CLEAVE_RUNTIME_HAPPENSBEFORE_H

#include "runtime/Plan.h"

#include <functional>

namespace cleave::runtime {

/// The order of one phase of one entry whose structure is sound (verifyStructure).
class HappensBefore {
public:
  /// An instruction of a program of the entry, by their indices.
  struct Occurrence {
    uint32_t program = 0, instruction = 0;
  };
  using Clock = std::vector<uint32_t>;
  /// Gets an event's instructions (two for a send and its receive) and the clock of each.
  using Visitor = std::function<Error(std::span<const Occurrence>, std::span<const Clock>)>;

  HappensBefore(const PlanContents &plan, const Entry &entry, Phase phase);

  /// Visits the events in an order in which they can happen, until a visitor fails. Events that can never happen end
  /// the walk with an error that names the instructions that wait for each other in a circle.
  Error walk(const Visitor &visit) const;
  /// Whether `earlier` is certain to be over before the instruction with that clock begins, on each device.
  bool precedes(Occurrence earlier, const Clock &clock) const {
    uint32_t node = nodeOf(earlier);
    return clock[queueOf[node]] >= valueOf[node];
  }
  /// For messages: device or mesh, queue, action and node.
  std::string describe(Occurrence occurrence) const;

private:
  uint32_t nodeOf(Occurrence occurrence) const { return firstNode[occurrence.program] + occurrence.instruction; }
  const Instruction &instructionOf(Occurrence occurrence) const;
  void number();
  void pair();
  void connect();
  Error deadlock(const std::vector<uint32_t> &missing) const;

  const PlanContents &plan;
  const Entry &entry;
  Phase phase;
  bool isSingle(uint32_t program) const;
  /// The node's clock from those of its predecessors.
  Clock clockOf(uint32_t node, const std::vector<std::vector<Clock>> &clocks) const;

  // Nodes are instructions, numbered program by program; queues likewise.
  std::vector<uint32_t> firstNode, firstQueue, queueOf, valueOf, programOf;
  uint32_t numQueues = 0;
  // Events: a node's event, and an event's one or two occurrences.
  std::vector<uint32_t> eventOf;
  std::vector<std::vector<Occurrence>> events;
  std::vector<bool> merges;                       ///< an event of two single devices: both know what each of them knew
  std::vector<std::vector<uint32_t>> nodesBefore; ///< of a node
  std::vector<std::vector<uint32_t>> predecessors, successors; ///< of an event
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_HAPPENSBEFORE_H
