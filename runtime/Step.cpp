// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers what the queues of a step report.

#include "runtime/Step.h"

#include <algorithm>

namespace cleave::runtime {

Step::Step(EntryPhase phase, std::vector<uint64_t> before, unsigned queues, int64_t earliest)
    : phase(phase), before(std::move(before)), number(this->before[phase.index()]), earliest(earliest), queues(queues) {
  times = {earliest, earliest};
  if (queues == 0)
    done.signal(1);
}

void Step::finish(StepTimes queue, const Error &error) {
  bool last;
  {
    std::lock_guard lock(mutex);
    times = timed ? StepTimes{std::min(times.begin, queue.begin), std::max(times.end, queue.end)} : queue;
    timed = true;
    if (error && !failure)
      failure = error;
    last = ++finished == queues;
  }
  if (!last)
    return;
  // Whoever has waited knows that this is over, too.
  if (over)
    over();
  done.signal(1);
}

Expected<StepTimes> Step::wait() {
  done.wait(1);
  if (failure)
    return failure;
  return times;
}

} // namespace cleave::runtime
