// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The slice through sched_setattr, which the C library does not wrap everywhere.

#include "runtime/drivers/cpu/ShortTurns.h"

#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

namespace cleave::runtime {

namespace {
/// The system call's first version of its struct, the same on all systems.
struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = 0; ///< SCHED_OTHER
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0; ///< of SCHED_OTHER: the slice in nanoseconds
  uint64_t deadline = 0;
  uint64_t period = 0;
};
} // namespace

void takeShortTurns(std::chrono::microseconds turn) {
#ifdef SYS_sched_setattr
  Attributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != 0)
    return; // someone has chosen another policy for the process
  attributes.runtime = static_cast<uint64_t>(std::chrono::nanoseconds(turn).count());
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

} // namespace cleave::runtime
