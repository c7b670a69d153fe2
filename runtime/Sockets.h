// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the processes of a run reach each other without the library that has started them.

#ifndef CLEAVE_RUNTIME_SOCKETS_H
#define CLEAVE_RUNTIME_SOCKETS_H

#include <cstdint>
#include <string>

namespace cleave::runtime {

/// A socket that listens and does not block, its port, or the reason why there is none (`socket` is -1 then). The
/// socket is the caller's to close.
struct Listener {
  int socket = -1;
  uint16_t port = 0;
  std::string error;
};
/// Listens at a port that is free, on this host alone or `everywhere`.
Listener listenForProcesses(bool everywhere);

/// Connects to the first of these addresses ("10.0.0.1,10.1.0.1") that answers; -1 and the reason if none does. The
/// socket does not block; it is the caller's to close.
int connectToProcess(const std::string &addresses, uint16_t port, std::string &error);

/// The addresses of this host by which others may reach it, as connectToProcess takes them.
std::string addressesOfHost();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SOCKETS_H
