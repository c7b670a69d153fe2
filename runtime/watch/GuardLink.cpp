// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages as bytes that follow each other.

#include "runtime/watch/GuardLink.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

} // namespace cleave::runtime
