// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How processes that run a plan together notice that one of them dies or stops. Each is two: the one that works, and
// its guard, which the launcher has started, and which forks the other, waits for it, and talks with the guards of
// the other ranks. Guards run no plan and call no MPI, so nothing that goes wrong there keeps them from ending all.

#ifndef CLEAVE_RUNTIME_WATCH_WATCH_H
#define CLEAVE_RUNTIME_WATCH_WATCH_H

#include "runtime/Error.h"

#include <cstdint>
#include <string>

namespace cleave::runtime {

struct WatchOptions {
  /// Seconds after which a rank that does not run is given up; 0: never. What ending takes comes on top.
  double rankTimeout = 8;
  /// Seconds that an instruction may take, waiting included; 0: any time.
  double stepTimeout = 0;
};

/// Where the guard of rank 0 is to be reached.
struct WatchAddress {
  uint16_t port = 0;
  uint64_t token = 0;
  std::string addresses; ///< by commas
};

/// Makes this process the guard of the one that returns from here. `rank` is for messages before the processes know
/// each other. To be called before there are threads; the guard ends with the code of the run. Without effect where
/// processes cannot be made or the memory is missing: then nobody watches.
void startGuard(uint32_t rank);

/// Whether this process has a guard.
bool isGuarded();

/// Has the guard, which is rank 0's, wait for the others: on this host, or everywhere. With a message when it cannot.
Expected<WatchAddress> openWatch(bool everywhere);

/// Has the guard watch together with the others. Status::Failure when it cannot reach rank 0's.
Error joinWatch(uint32_t rank, uint32_t count, const WatchAddress &address, const WatchOptions &options);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_WATCH_H
