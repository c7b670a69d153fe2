// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The threads of a compute queue, and where they run.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_COMPUTETEAM_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_COMPUTETEAM_H

#include "runtime/drivers/cpu/CoreSet.h"

#include <chrono>

namespace cleave::runtime {

/// The calling thread and the OpenMP threads that its parallel loops start. They meet at the end of every loop, so a
/// loop takes as long as the one of them that waits longest for a core. Beside other processes each therefore keeps to
/// a core of its own, rather than two of them to one, and asks for short turns there
/// (docs/rationale/waiting-awake.md).
class ComputeTeam {
public:
  /// To be called on the thread that will run the loops. `cores` has one for each thread; without any, and for a single
  /// thread, the system places them. `all` are those that the calling thread may run on.
  ComputeTeam(unsigned threads, CoreSet cores, CoreSet all);

  /// Places threads that have joined since the last call; to be called between steps. OpenMP ends threads when a loop
  /// wants fewer and starts others later, which inherit the calling thread's cores. So that thread keeps to its core
  /// only while the team stays the same. Does nothing when the last call was a moment ago.
  void settle();

private:
  /// Gives their places to the threads that have none yet; how many these were.
  unsigned placeNewcomers();

  enum class Leader : uint8_t { Unplaced, Placed, Free };

  const CoreSet cores, all;
  Leader leader = Leader::Unplaced;
  bool isFirst = true;
  std::chrono::steady_clock::time_point next{};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_COMPUTETEAM_H
