// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records when each instruction ran, and writes that as trace events for Perfetto and Chrome (a process is a device, a
// thread a queue).

#ifndef CLEAVE_RUNTIME_TRACE_H
#define CLEAVE_RUNTIME_TRACE_H

#include "runtime/Site.h"

#include <deque>
#include <iosfwd>
#include <map>

namespace cleave::runtime {

/// Events of a run. Tracks are made before the run; each is then written by its queue alone.
class Trace {
public:
  struct Event {
    const Instruction *instruction = nullptr;
    Phase phase = Phase::Body;
    uint64_t step = 0;
    int64_t begin = 0, end = 0; ///< nanoseconds
    uint32_t entry = 0;         ///< its place among the executor's entries
  };
  /// The events of one queue.
  struct Track {
    uint32_t device = 0, mesh = 0, member = 0, queue = 0; ///< as in Site
    QueueKind kind = QueueKind::Compute;
    uint32_t thread = 0; ///< distinct among the queues of all sites of the device
    std::string deviceName, queueName;
    std::vector<Event> events;
  };

  /// A number that changes with time, such as the bytes in use.
  struct Counter {
    uint32_t device = 0;
    std::string name;
    std::vector<std::pair<int64_t, double>> values; ///< from a time on, in nanoseconds
  };

  /// A new track for a queue of a site. The trace keeps `plan` alive, whose instructions the events refer to.
  Track &add(const Plan &plan, const Site &site, uint32_t queue, QueueKind kind);
  /// The entries that run together, by their places: parts of the plan that the tracks are of.
  void setEntries(std::vector<const Entry *> entries) { running = std::move(entries); }
  std::span<const Entry *const> entries() const { return running; }
  /// A new counter of a device. Events and counters of one trace have one clock.
  Counter &addCounter(uint32_t device, std::string name);
  /// Not while a step is running.
  const std::deque<Track> &tracks() const { return all; }
  /// The events as bytes for another process with the same plan and entries, with `offset` added to their times.
  std::vector<std::byte> pack(std::span<const Entry *const> entries, int64_t offset) const;
  /// Adds the events that another process has packed.
  void unpack(const Plan &plan, std::span<const Entry *const> entries, std::span<const std::byte> bytes);
  /// The events as JSON, in microseconds from the first begin; with them the bytes in use, if the entries are known.
  /// Not while a step is running.
  void write(std::ostream &out) const;

private:
  Plan plan;
  std::deque<Track> all;
  std::deque<Counter> counters;
  std::vector<const Entry *> running;
  std::map<uint32_t, uint32_t> threads; ///< tracks of each device so far
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRACE_H
