// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records when each instruction ran, and writes that as trace events for Perfetto and Chrome (a process is a device, a
// thread a queue).

#ifndef CLEAVE_RUNTIME_TRACE_H
#define CLEAVE_RUNTIME_TRACE_H

#include "runtime/Plan.h"

#include <deque>
#include <iosfwd>

namespace cleave::runtime {

/// Events of a run. Tracks are made before the run; each is then written by its queue alone.
class Trace {
public:
  struct Event {
    const Instruction *instruction = nullptr;
    Phase phase = Phase::Body;
    uint64_t step = 0;
    int64_t begin = 0, end = 0; ///< nanoseconds
  };
  /// The events of one queue.
  struct Track {
    uint32_t device = 0, queue = 0;
    std::string deviceName, queueName;
    std::vector<Event> events;
  };

  /// A new track. The trace keeps `plan` alive, whose instructions the events refer to.
  Track &add(const Plan &plan, uint32_t device, uint32_t queue, QueueKind kind);
  /// Not while a step is running.
  const std::deque<Track> &tracks() const { return all; }
  /// The events as JSON, in microseconds from the first begin. Not while a step is running.
  void write(std::ostream &out) const;

private:
  Plan plan;
  std::deque<Track> all;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRACE_H
