// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The waiting side of timelines.

#include "runtime/Timeline.h"

#include <thread>

namespace cleave::runtime {

void Timeline::wait(uint32_t value, std::chrono::nanoseconds spin) const {
  if (reached(value))
    return;
  if (spin.count() > 0) {
    auto deadline = std::chrono::steady_clock::now() + spin;
    do {
      for (int i = 0; i != 64; ++i) {
        if (reached(value))
          return;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
      }
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < deadline);
  }
  for (;;) {
    uint32_t seen = counter.load(std::memory_order_acquire);
    if (static_cast<int32_t>(seen - value) >= 0)
      return;
    counter.wait(seen);
  }
}

} // namespace cleave::runtime
