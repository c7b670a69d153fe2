// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One run of a phase on all devices: its inputs and outputs, and what became of it.

#ifndef CLEAVE_RUNTIME_STEP_H
#define CLEAVE_RUNTIME_STEP_H

#include "runtime/Executor.h"
#include "runtime/Timeline.h"

#include <functional>
#include <mutex>
#include <vector>

namespace cleave::runtime {

/// A step on its way through the queues, shared by the queues that run it and the caller who waits for it.
class Step {
public:
  /// `before` has, by EntryPhase::index, how many steps were made before this one. `queues` queues will call finish.
  /// `earliest` is when the caller submitted it, for simulated time.
  Step(EntryPhase phase, std::vector<uint64_t> before, unsigned queues, int64_t earliest = 0);

  /// The sum of what the steps before this one count, when one of phase number i counts `each[i]`.
  template <typename Counts> uint64_t countBefore(const Counts &each) const {
    uint64_t sum = 0;
    for (size_t i = 0; i != before.size(); ++i)
      sum += before[i] * each[i];
    return sum;
  }

  const EntryPhase phase;
  const std::vector<uint64_t> before;
  /// Counted from 0 within the phase.
  const Ticket number;
  const int64_t earliest;
  std::vector<HostTensor> inputs, outputs;
  /// Called when the step is over, by the thread that ends it; may be empty.
  std::function<void()> over;

  /// A queue has ended its list, which it ran from `times.begin` to `times.end`, with its first error, if any.
  void finish(StepTimes times, const Error &error);
  /// Waits for the last queue. The error of the queue that ended first with one.
  Expected<StepTimes> wait();

private:
  const unsigned queues;
  std::mutex mutex;
  unsigned finished = 0;
  bool timed = false;
  StepTimes times;
  Error failure;
  Timeline done;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_H
