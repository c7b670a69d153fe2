// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages between processes over sockets of our own, for runs that outlive some of their processes: MPI may stop for
// ever in one that writes to a process that is gone (docs/rationale/replicas.md).

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_SOCKETS_SOCKETMESSAGES_H
#define CLEAVE_RUNTIME_COMMUNICATORS_SOCKETS_SOCKETMESSAGES_H

#include "runtime/Messages.h"
#include "runtime/Sockets.h"

#include <array>
#include <memory>

namespace cleave::runtime {

/// Where a process of the run waits for the others.
struct MessageAddress {
  uint64_t token = 0; ///< what only the processes of the run know
  uint32_t port = 0;
  std::array<char, 1024> addresses{}; ///< see connectToProcess
};

/// What this process, which listens there, tells the others. `everywhere`: some are on other hosts.
MessageAddress messageAddress(const Listener &listener, bool everywhere);

/// The messages of the process `rank`, whose listener this is and is closed with them. `all` are the addresses of all
/// processes, by rank. Of two processes the one with the larger number connects, a line's first time.
std::unique_ptr<Messages> createSocketMessages(uint32_t rank, Listener listener, std::vector<MessageAddress> all);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_SOCKETS_SOCKETMESSAGES_H
