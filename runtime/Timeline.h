// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A counter that one thread raises and others wait for, at first on their core, then asleep.

#ifndef CLEAVE_RUNTIME_TIMELINE_H
#define CLEAVE_RUNTIME_TIMELINE_H

#include <atomic>
#include <chrono>
#include <cstdint>

namespace cleave::runtime {

/// A monotone counter that wraps: values are compared by their distance, which must stay below 2^31.
class Timeline {
public:
  /// Raises the counter to `value` and wakes whoever waits. Everything done before is visible to them.
  void signal(uint32_t value) {
    // Sequentially consistent, so that the check for sleepers inside notify_all cannot overtake the store.
    counter.store(value);
    counter.notify_all();
  }
  /// Raises the counter by one, from any thread, and wakes whoever waits.
  void increment() {
    counter.fetch_add(1);
    counter.notify_all();
  }
  bool reached(uint32_t value) const {
    return static_cast<int32_t>(counter.load(std::memory_order_acquire) - value) >= 0;
  }
  /// Returns once the counter has reached `value`. Before it sleeps it looks again and again for at most `spin`; in
  /// between, whoever else wants the core has it.
  void wait(uint32_t value, std::chrono::nanoseconds spin = {}) const;

private:
  std::atomic<uint32_t> counter{0};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TIMELINE_H
