// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Time that has passed.

#ifndef CLEAVE_RUNTIME_TRAINING_STOPWATCH_H
#define CLEAVE_RUNTIME_TRAINING_STOPWATCH_H

#include <chrono>

namespace cleave::runtime {

/// Seconds since it was made.
class Stopwatch {
public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }

private:
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_STOPWATCH_H
