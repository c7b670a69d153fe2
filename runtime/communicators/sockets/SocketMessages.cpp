// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A line is a connection. A thread accepts those that others open.

#include "runtime/communicators/sockets/SocketMessages.h"

#include "runtime/watch/Logbook.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace cleave::runtime {
namespace {

/// How often whoever waits asks whether the other process is still there.
constexpr std::chrono::milliseconds betweenQuestions{50};
/// How long the end of a connection waits for the guards to say why.
constexpr std::chrono::seconds longestQuestion{5};
/// How many may have connected without having said who they are; the longest silent one ends for another.
constexpr size_t mostStrangers = 256;

/// What comes first on a connection.
struct Hello {
  uint64_t token = 0;
  uint32_t rank = 0, line = 0;
};
struct Stranger {
  int socket = -1;
  Hello hello;
  size_t heard = 0; ///< bytes of it
};

class SocketMessages : public Messages {
public:
  SocketMessages(uint32_t rank, Listener listener, std::vector<MessageAddress> all)
      : rank(rank), listener(std::move(listener)), all(std::move(all)), acceptor([this] { acceptOthers(); }) {}
  ~SocketMessages() override {
    isOver = true;
    shutdown(listener.socket, SHUT_RDWR); // wakes the acceptor
    acceptor.join();
    close(listener.socket);
    for (const Stranger &stranger : strangers)
      close(stranger.socket);
    for (const auto &[line, socket] : lines)
      close(socket);
  }

  Error send(uint32_t to, uint32_t line, const ConstParts &parts) override {
    auto socket = connection(to, line);
    if (!socket)
      return socket.error();
    for (size_t part = 0; part != parts.size(); ++part) {
      int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (part + 1 == parts.size() ? 0 : MSG_MORE);
      if (!transfer(*socket, POLLOUT, to, parts[part],
                    [&](auto rest) { return ::send(*socket, rest.data(), rest.size(), flags); }))
        return lost(to);
    }
    return Error::success();
  }

  Error receive(uint32_t from, uint32_t line, const Parts &parts) override {
    auto socket = connection(from, line);
    if (!socket)
      return socket.error();
    for (std::span<std::byte> part : parts)
      if (!transfer(*socket, POLLIN, from, part,
                    [&](auto rest) { return recv(*socket, rest.data(), rest.size(), MSG_DONTWAIT); }))
        return lost(from);
    return Error::success();
  }

private:
  using Line = std::pair<uint32_t, uint32_t>; ///< the other process, and the line's number

  static Error knownLoss(uint32_t other) { return Logbook::own() ? Logbook::own()->lost(other) : Error::success(); }

  /// Moves the bytes with `move`, as send and recv. False when the other process is gone.
  template <typename Bytes, typename Move>
  static bool transfer(int socket, short event, uint32_t other, Bytes rest, const Move &move) {
    while (!rest.empty()) {
      ssize_t moved = move(rest);
      if (moved > 0) {
        rest = rest.subspan(static_cast<size_t>(moved));
        continue;
      }
      if (moved == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || knownLoss(other))
        return false;
      pollfd waiting = {socket, event, 0};
      poll(&waiting, 1, static_cast<int>(betweenQuestions.count()));
    }
    return true;
  }

  /// Whoever finds a connection ended knows it before the guards do, who know why.
  static Error lost(uint32_t other, const std::string &text = "its connection to this rank has ended") {
    auto until = std::chrono::steady_clock::now() + longestQuestion;
    while (Logbook::own() && std::chrono::steady_clock::now() < until) {
      if (Error error = knownLoss(other))
        return error;
      std::this_thread::sleep_for(betweenQuestions);
    }
    return makeError(Status::Lost, "rank ", other, " is lost: ", text);
  }

  Expected<int> connection(uint32_t other, uint32_t number) {
    std::unique_lock lock(mutex);
    Line line = {other, number};
    if (other < rank && !lines.contains(line)) {
      std::string error;
      int made = connectToProcess(all[other].addresses.data(), static_cast<uint16_t>(all[other].port), error);
      if (made < 0) {
        lock.unlock();
        return lost(other, "it does not answer: " + error);
      }
      Hello hello{all[other].token, rank, number};
      (void)::send(made, &hello, sizeof hello, MSG_NOSIGNAL);
      add(line, made);
    }
    while (!lines.contains(line)) {
      if (Error error = knownLoss(other))
        return error;
      changed.wait_for(lock, betweenQuestions);
    }
    return lines[line];
  }

  /// With the mutex held.
  void add(const Line &line, int socket) {
    int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    lines[line] = socket;
    changed.notify_all();
  }

  void acceptOthers() {
    while (!isOver) {
      std::vector<pollfd> waiting = {{listener.socket, POLLIN, 0}};
      for (const Stranger &stranger : strangers)
        waiting.push_back({stranger.socket, POLLIN, 0});
      poll(waiting.data(), waiting.size(), -1);
      std::erase_if(strangers, [this](Stranger &stranger) { return hearOut(stranger); });
      if (waiting.front().revents != 0 && !isOver)
        acceptOne();
    }
  }

  void acceptOne() {
    int made = accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (made < 0) {
      std::this_thread::sleep_for(betweenQuestions); // no descriptor is free, or whoever connected is gone again
      return;
    }
    if (strangers.size() == mostStrangers) {
      close(strangers.front().socket);
      strangers.erase(strangers.begin());
    }
    strangers.emplace_back().socket = made;
  }

  /// Whether it is known who this is: one of the run's processes, whose connection is a line, or somebody whose
  /// connection ends.
  bool hearOut(Stranger &stranger) {
    auto rest = std::as_writable_bytes(std::span(&stranger.hello, 1)).subspan(stranger.heard);
    ssize_t got = recv(stranger.socket, rest.data(), rest.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
      return false;
    stranger.heard += got > 0 ? static_cast<size_t>(got) : 0;
    if (got > 0 && stranger.heard < sizeof stranger.hello)
      return false;
    const Hello &hello = stranger.hello;
    std::lock_guard lock(mutex);
    if (got > 0 && hello.token == all[rank].token && hello.rank > rank && hello.rank < all.size() &&
        !lines.contains({hello.rank, hello.line}))
      add({hello.rank, hello.line}, stranger.socket);
    else
      close(stranger.socket);
    return true;
  }

  const uint32_t rank;
  const Listener listener;
  const std::vector<MessageAddress> all;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Line, int> lines;
  std::vector<Stranger> strangers; ///< the acceptor's
  std::atomic<bool> isOver{false};
  std::thread acceptor; ///< last, since it uses the others
};

} // namespace

MessageAddress messageAddress(const Listener &listener, bool everywhere) {
  MessageAddress address;
  address.port = listener.port;
  (void)getrandom(&address.token, sizeof address.token, 0);
  std::string text = everywhere ? addressesOfHost() : "127.0.0.1";
  text.copy(address.addresses.data(), address.addresses.size() - 1);
  return address;
}

std::unique_ptr<Messages> createSocketMessages(uint32_t rank, Listener listener, std::vector<MessageAddress> all) {
  return std::make_unique<SocketMessages>(rank, std::move(listener), std::move(all));
}

} // namespace cleave::runtime
