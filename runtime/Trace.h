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
#include <mutex>
#include <set>
#include <span>
#include <string_view>

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
  /// A step of the body of an entry: the entry's place, and how many of its steps were before.
  struct StepOf {
    uint32_t entry = 0;
    uint64_t step = 0;
    auto operator<=>(const StepOf &) const = default;
    bool has(const Event &event) const {
      return event.phase == Phase::Body && event.entry == entry && event.step == step;
    }
  };
  /// The events of one queue.
  struct Track {
    uint32_t device = 0, mesh = 0, member = 0, queue = 0; ///< as in Site
    QueueKind kind = QueueKind::Compute;
    uint32_t thread = 0; ///< distinct among the queues of all sites of the device
    std::string deviceName, queueName;
    std::vector<Event> events;
    Trace *owner = nullptr;

    /// Whether the events of a step are to be recorded.
    bool records(Phase phase, uint32_t entry, uint64_t step) const;
    void record(const Event &event);
  };

  /// What is no instruction's, to be shown beside the devices.
  struct Line {
    struct Stretch {
      std::string name;
      int64_t begin = 0, end = 0; ///< nanoseconds
      std::vector<std::pair<std::string, uint64_t>> numbers = {};
    };
    std::string name;
    std::vector<Stretch> stretches;
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
  /// From now on only the events of steps that are wanted are recorded. Before there are tracks. The functions that
  /// follow are for such traces, and may be called while steps run.
  void recordSingleSteps() { ofSingleSteps = true; }
  /// Before the step is submitted.
  void want(StepOf step);
  /// Adds the events of a wanted step, which is over, to another trace, which has none or those of this one's steps.
  void copyStep(StepOf step, Trace &target) const;
  /// A wanted step is wanted no more.
  void forget(StepOf step);

  /// Not while a step is running.
  const std::deque<Track> &tracks() const { return all; }
  /// The events as bytes for another process with the same plan and entries, with `offset` added to their times.
  std::vector<std::byte> pack(std::span<const Entry *const> entries, int64_t offset) const;
  /// Adds the events that another process has packed.
  void unpack(const Plan &plan, std::span<const Entry *const> entries, std::span<const std::byte> bytes);
  /// The events as JSON, in microseconds from the first begin; with them the bytes in use, if the entries are known,
  /// and lines of something else that has a name. Not while a step is running.
  void write(std::ostream &out, std::string_view about = {}, std::span<const Line> lines = {}) const;

private:
  Plan plan;
  std::deque<Track> all;
  std::deque<Counter> counters;
  std::vector<const Entry *> running;
  std::map<uint32_t, uint32_t> threads; ///< tracks of each device so far
  bool ofSingleSteps = false;
  mutable std::mutex mutex; ///< of events and of those wanted, where the trace is of single steps
  std::set<StepOf> wanted;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRACE_H
