// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One instance of a model as the dispatcher sees it: what batches take on it, which of them run, and when the next one
// could begin and end. Instances have devices of their own, and may be of unlike speed.

#ifndef CLEAVE_RUNTIME_SERVE_DISPATCHEDINSTANCE_H
#define CLEAVE_RUNTIME_SERVE_DISPATCHEDINSTANCE_H

#include "runtime/serve/BatchPolicy.h"
#include "runtime/serve/RequestQueue.h"

#include <map>

namespace cleave::runtime::serve {

/// `seconds` in nanoseconds, rounded up; `never` for centuries.
Time nanosecondsOf(double seconds);
/// The sum; `never` where it would be later than that.
inline Time later(Time time, Time by) { return by >= never - time ? never : time + by; }

class DispatchedInstance {
public:
  /// `inFlight`: batches at a time; more than one where its devices form a pipeline.
  DispatchedInstance(BatchTable table, unsigned inFlight) : table(std::move(table)), inFlight(std::max(1u, inFlight)) {}

  BatchTable table;
  bool isLost = false;

  void begin(uint64_t batch, size_t size, Time now) { running[batch] = {size, now}; }
  /// Whether the batch ran here; `seconds` as Dispatcher::finish has them.
  bool finish(uint64_t batch, double seconds);
  /// It is gone with all of its batches.
  void lose();

  size_t numRunning() const { return running.size(); }
  bool isFree() const { return !isLost && running.size() < inFlight; }
  /// Samples a second, by predicted and corrected times.
  double capacity() const { return table.capacity() * inFlight; }
  /// Samples of as many batches of the fastest size as run at a time.
  uint64_t samplesAtATime() const { return uint64_t(table.samples(table.fastest())) * inFlight; }
  /// Samples a second where all batches are of the size; infinite where it has not run, so that no request counts as
  /// late by a guess.
  double measuredRate(size_t size) const;
  /// What a batch of the size takes, where that has been measured, else 0; nanoseconds.
  Time measuredTime(size_t size) const { return table.isMeasured(size) ? nanosecondsOf(table.seconds(size)) : 0; }
  /// What it keeps the next batch waiting for: in a pipeline a stage of it does; nanoseconds, predicted or measured.
  Time turn(size_t size) const { return nanosecondsOf(table.seconds(size) / inFlight); }
  /// When all that runs is over, as far as times have been measured; at least `now`.
  Time idleAt(Time now) const;
  /// When another batch can begin, by predicted and corrected times: `now` where it is free, and not before `now`.
  Time freeAt(Time now) const;
  /// When another batch, of the smallest size that holds `samples`, would end.
  Time endOf(uint64_t samples, Time now) const;

  /// The best policy for samples that arrive at `rate` a second, of which this instance does the part `share`. Kept
  /// until times have changed.
  const BatchPolicy &policy(double rate, double share);

private:
  struct Running {
    size_t size = 0;
    Time begin = 0;
  };
  unsigned inFlight;
  std::map<uint64_t, Running> running; ///< by number, the oldest first
  /// By step of the rate, for these times.
  std::map<int, BatchPolicy> policies;
  std::vector<double> policySeconds;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_DISPATCHEDINSTANCE_H
