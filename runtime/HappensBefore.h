// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which a phase of an entry can happen: which instruction is certain to be over before which other begins,
// given queue order, waits, and sends that meet their receives. A phase without such an order deadlocks.
//
// A send and its receive end together and move bytes only when both have begun, so they are one event here. Queues run
// without choice, hence the phase deadlocks if and only if the events' graph has a cycle. Precedence is answered with
// vector clocks (Fidge 1988, Mattern 1989) over queues: clock[q] is the number of instructions of queue q that are
// certain to be over before the event begins.

#ifndef CLEAVE_RUNTIME_HAPPENSBEFORE_H
#define CLEAVE_RUNTIME_HAPPENSBEFORE_H

#include "runtime/Plan.h"

#include <functional>

namespace cleave::runtime {

/// A device that takes part in an entry, and what it runs.
struct Site {
  uint32_t device = 0;
  const Program *program = nullptr;
};

/// Every device of every program of the entry, in the order of programs and meshes.
std::vector<Site> sitesOf(const PlanContents &plan, const Entry &entry);

/// The order of one phase of one entry whose structure is sound (verifyStructure).
class HappensBefore {
public:
  /// An instruction of a site, by its index in the site's list.
  struct Occurrence {
    uint32_t site = 0, instruction = 0;
  };
  using Clock = std::vector<uint32_t>;
  /// Gets an event's instructions (two for a send and its receive) and the event's clock.
  using Visitor = std::function<Error(std::span<const Occurrence>, const Clock &)>;

  HappensBefore(const PlanContents &plan, const std::vector<Site> &sites, Phase phase);

  /// Visits the events in an order in which they can happen, until a visitor fails. Events that can never happen end
  /// the walk with an error that names the instructions that wait for each other in a circle.
  Error walk(const Visitor &visit) const;
  /// Whether `earlier` is certain to be over before the event with that clock begins.
  bool precedes(Occurrence earlier, const Clock &clock) const {
    uint32_t node = nodeOf(earlier);
    return clock[queueOf[node]] >= valueOf[node];
  }
  /// For messages: device, queue, action and node.
  std::string describe(Occurrence occurrence) const;

private:
  uint32_t nodeOf(Occurrence occurrence) const { return firstNode[occurrence.site] + occurrence.instruction; }
  const Instruction &instructionOf(Occurrence occurrence) const;
  void number();
  void pair();
  void connect();
  Error deadlock(const std::vector<uint32_t> &missing) const;

  const PlanContents &plan;
  const std::vector<Site> &sites;
  Phase phase;
  // Nodes are instructions, numbered site by site; queues likewise.
  std::vector<uint32_t> firstNode, firstQueue, queueOf, valueOf, siteOf;
  uint32_t numQueues = 0;
  // Events: a node's event, and an event's one or two occurrences.
  std::vector<uint32_t> eventOf;
  std::vector<std::vector<Occurrence>> events;
  std::vector<std::vector<uint32_t>> predecessors, successors;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_HAPPENSBEFORE_H
