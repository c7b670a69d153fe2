// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sockets over IPv4.

#include "runtime/watch/GuardLink.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace cleave::runtime {

GuardLink::GuardLink(int socket) : descriptor(socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

GuardLink::~GuardLink() {
  if (descriptor >= 0)
    close(descriptor);
}

GuardLink::GuardLink(GuardLink &&other) noexcept
    : descriptor(std::exchange(other.descriptor, -1)), incoming(std::move(other.incoming)),
      outgoing(std::move(other.outgoing)) {}

GuardLink &GuardLink::operator=(GuardLink &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(incoming, other.incoming);
  std::swap(outgoing, other.outgoing);
  return *this;
}

void GuardLink::send(const GuardMessage &message) {
  constexpr size_t most = 64 * sizeof(GuardMessage);
  if (message.kind == GuardMessageKind::Beat && outgoing.size() > most)
    return;
  outgoing.append(reinterpret_cast<const char *>(&message), sizeof message);
  flush();
}

void GuardLink::flush() {
  while (!outgoing.empty()) {
    ssize_t sent = ::send(descriptor, outgoing.data(), outgoing.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0)
      return; // later, or never: receive() finds out
    outgoing.erase(0, static_cast<size_t>(sent));
  }
}

bool GuardLink::receive(std::vector<GuardMessage> &messages) {
  bool there = true;
  for (std::array<char, 4096> part;;) {
    ssize_t got = recv(descriptor, part.data(), part.size(), MSG_DONTWAIT);
    if (got > 0) {
      incoming.append(part.data(), static_cast<size_t>(got));
      continue;
    }
    there = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    break;
  }
  size_t read = 0;
  for (; incoming.size() - read >= sizeof(GuardMessage); read += sizeof(GuardMessage))
    std::memcpy(&messages.emplace_back(), incoming.data() + read, sizeof(GuardMessage));
  incoming.erase(0, read);
  return there;
}

Listener listenForGuards(bool everywhere) {
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

int connectToGuard(const std::string &addresses, uint16_t port, std::string &error) {
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
