// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The process that guards a rank (Watch.h says why): it waits for the rank's process, tells the other guards that it
// runs and what it does, and ends it when one of them has failed. The guard of rank 0 hears of all failures, says the
// first one, and has all end.

#ifndef CLEAVE_RUNTIME_WATCH_GUARD_H
#define CLEAVE_RUNTIME_WATCH_GUARD_H

#include "runtime/watch/GuardLink.h"
#include "runtime/watch/Watch.h"

#include <sys/types.h>

namespace cleave::runtime {

/// What the guarded process asks of its guard, over a socket of packets.
struct GuardRequest {
  enum class Kind : uint32_t { Open, Join };
  Kind kind = Kind::Open;
  bool everywhere = false;
  uint32_t rank = 0, count = 1;
  uint64_t token = 0;
  uint16_t port = 0;
  std::array<char, 1024> addresses{};
  WatchOptions options;
};
struct GuardReply {
  bool fine = true;
  uint16_t port = 0;
  std::array<char, 512> error{};
};

/// What a guard knows of its process.
struct Guarded {
  pid_t process = 0, launcher = 0;
  Logbook *book = nullptr;
  int control = -1, signals = -1; ///< the socket of requests, and a signalfd
  uint32_t rank = 0;
};

/// Guards until the process has ended; the exit code.
int guard(const Guarded &guarded);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_GUARD_H
