// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The clock that steps, instructions and deadlines are told by.

#ifndef CLEAVE_RUNTIME_CLOCK_H
#define CLEAVE_RUNTIME_CLOCK_H

#include <chrono>
#include <cstdint>

namespace cleave::runtime {

/// Nanoseconds of a clock that only goes forwards, the same in all processes of a host.
inline int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CLOCK_H
