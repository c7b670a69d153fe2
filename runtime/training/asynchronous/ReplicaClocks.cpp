// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Smallest clocks.

#include "runtime/training/asynchronous/ReplicaClocks.h"

#include <algorithm>

namespace cleave::runtime {

uint64_t ReplicaClocks::slowest() const {
  uint64_t least = UINT64_MAX;
  for (size_t replica = 0; replica != clocks.size(); ++replica)
    if (!gone[replica])
      least = std::min(least, clocks[replica]);
  return least;
}

uint32_t ReplicaClocks::count() const { return static_cast<uint32_t>(std::ranges::count(gone, false)); }

} // namespace cleave::runtime
