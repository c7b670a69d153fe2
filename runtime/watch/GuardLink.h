// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How guards talk: messages of one size over sockets that never block.

#ifndef CLEAVE_RUNTIME_WATCH_GUARDLINK_H
#define CLEAVE_RUNTIME_WATCH_GUARDLINK_H

#include "runtime/Sockets.h"
#include "runtime/watch/Logbook.h"

#include <string>

namespace cleave::runtime {

enum class GuardMessageKind : uint32_t {
  Hello,  ///< to rank 0: who has connected
  Beat,   ///< the sender runs, and what its process does
  Failed, ///< to rank 0: what has gone wrong in the sender's process
  End,    ///< from rank 0: end with this code
  Stay,   ///< from rank 0: the run goes on without the process of the receiver, who waits for its end
  Bye     ///< the sender's process has ended as it should
};

/// An Activity as bytes; `age` is in nanoseconds, since clocks differ between hosts.
struct SentActivity {
  ActivityKind kind = ActivityKind::None;
  int64_t age = 0;
  std::array<char, 256> text{};
};

/// One message. What a kind does not need is zero.
struct GuardMessage {
  GuardMessageKind kind = GuardMessageKind::Beat;
  uint32_t rank = 0;
  uint64_t token = 0; ///< of a Hello: what only the processes of the run know
  int32_t code = 0;
  uint32_t urgency = 0;          ///< of a failure: Urgency in Guard.cpp
  std::array<char, 64> host{};   ///< of a Hello
  std::array<char, 1024> text{}; ///< of a failure
  std::array<char, 512> node{};  ///< of a failure: its model node, where the text does not name it
  SentActivity latest, longest;  ///< of a beat: what began last, and what has taken longest
};

/// Puts a text into one of these arrays, cut if need be.
template <size_t size> void putText(std::array<char, size> &target, std::string_view text) {
  target[text.copy(target.data(), size - 1)] = 0;
}

/// One end of a connection between two guards. Owns its socket.
class GuardLink {
public:
  explicit GuardLink(int socket);
  ~GuardLink();
  GuardLink(GuardLink &&other) noexcept;
  GuardLink &operator=(GuardLink &&other) noexcept;

  int socket() const { return descriptor; }
  /// Whether something is left to be sent once the socket takes it.
  bool hasMore() const { return !outgoing.empty(); }
  /// Sends as much as the socket takes and keeps the rest. Beats are left out while the other end takes nothing.
  void send(const GuardMessage &message);
  void flush();
  /// Appends what has come. False when the other end is gone.
  bool receive(std::vector<GuardMessage> &messages);

private:
  int descriptor;
  std::string incoming, outgoing;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_GUARDLINK_H
