// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// IPv4.

#include "runtime/Sockets.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

namespace cleave::runtime {

Listener listenForProcesses(bool everywhere) {
  Listener listener;
  int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto *any = reinterpret_cast<sockaddr *>(&address);
  if (made < 0 || bind(made, any, size) != 0 || listen(made, SOMAXCONN) != 0 || getsockname(made, any, &size) != 0) {
    listener.error = std::strerror(errno);
    if (made >= 0)
      close(made);
    return listener;
  }
  fcntl(made, F_SETFL, fcntl(made, F_GETFL) | O_NONBLOCK);
  listener.socket = made;
  listener.port = ntohs(address.sin_port);
  return listener;
}

/// Waits at most five seconds for one address.
static int connectTo(const std::string &text, uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) {
    errno = EINVAL;
    return -1;
  }
  int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0 || connect(made, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0)
    return made;
  int failed = errno;
  if (failed == EINPROGRESS) {
    pollfd waiting = {made, POLLOUT, 0};
    socklen_t size = sizeof failed;
    failed = ETIMEDOUT;
    if (poll(&waiting, 1, 5000) == 1)
      getsockopt(made, SOL_SOCKET, SO_ERROR, &failed, &size);
  }
  if (failed == 0)
    return made;
  close(made);
  errno = failed;
  return -1;
}

int connectToProcess(const std::string &addresses, uint16_t port, std::string &error) {
  std::istringstream list(addresses);
  for (std::string address; std::getline(list, address, ',');) {
    int made = connectTo(address, port);
    if (made >= 0)
      return made;
    error += (error.empty() ? "" : ", ") + address + ":" + std::to_string(port) + ": " + std::strerror(errno);
  }
  return -1;
}

std::string addressesOfHost() {
  std::string text;
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) != 0)
    return text;
  for (const ifaddrs *each = all; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET || (each->ifa_flags & IFF_LOOPBACK) != 0 ||
        (each->ifa_flags & IFF_UP) == 0)
      continue;
    std::array<char, INET_ADDRSTRLEN> address{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(each->ifa_addr)->sin_addr, address.data(),
              address.size());
    text += (text.empty() ? "" : ",") + std::string(address.data());
  }
  freeifaddrs(all);
  return text;
}

} // namespace cleave::runtime
