// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/communicators/sockets/SocketMessages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

/// Processes that are threads of this one.
class SocketMessagesTest : public testing::Test {
protected:
  static constexpr uint32_t count = 3;

  SocketMessagesTest() {
    std::vector<Listener> listeners;
    for (uint32_t rank = 0; rank != count; ++rank) {
      listeners.push_back(listenForProcesses(false));
      addresses.push_back(messageAddress(listeners.back(), false));
    }
    for (uint32_t rank = 0; rank != count; ++rank)
      processes.push_back(createSocketMessages(rank, listeners[rank], addresses));
  }

  Error send(uint32_t from, uint32_t to, uint32_t line, std::vector<int32_t> values) {
    std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    return processes[from]->send(to, line, {bytes.first(4), {}, bytes.subspan(4)});
  }
  std::vector<int32_t> receive(uint32_t from, uint32_t to, uint32_t line, size_t size) {
    std::vector<int32_t> values(size);
    EXPECT_FALSE(processes[to]->receive(from, line, {partOf(values)}));
    return values;
  }

  std::vector<MessageAddress> addresses;
  std::vector<std::unique_ptr<Messages>> processes;
};

// Each pair of processes, in both directions at once, on several lines, with more bytes than sockets hold.
TEST_F(SocketMessagesTest, CarriesLines) {
  constexpr uint32_t lines = 3;
  constexpr size_t sizes[] = {300'000, 1, 3'000'000};
  std::vector<std::thread> threads;
  for (uint32_t from = 0; from != count; ++from)
    for (uint32_t to = 0; to != count; ++to)
      for (uint32_t line = 0; line != lines && from != to; ++line) {
        auto valuesOf = [=](size_t size, int32_t round) {
          return std::vector<int32_t>(size, static_cast<int32_t>(1000 * from + 100 * to + 10 * line) + round);
        };
        threads.emplace_back([=, this] {
          for (int32_t round = 0; round != 3; ++round)
            EXPECT_FALSE(send(from, to, line, valuesOf(sizes[round], round)));
        });
        threads.emplace_back([=, this] {
          for (int32_t round = 0; round != 3; ++round)
            EXPECT_EQ(receive(from, to, line, sizes[round]), valuesOf(sizes[round], round));
        });
      }
  for (std::thread &thread : threads)
    thread.join();
}

// What has come whole is heard after the other's end; what has not is lost, for who sends as well.
TEST_F(SocketMessagesTest, NamesTheProcessThatIsGone) {
  std::thread answering([this] { EXPECT_EQ(receive(0, 2, 7, 2), std::vector<int32_t>({1, 2})); });
  EXPECT_FALSE(send(0, 2, 7, {1, 2}));
  answering.join();
  EXPECT_FALSE(send(2, 0, 7, {3, 4}));
  processes[2].reset();
  EXPECT_EQ(receive(2, 0, 7, 2), std::vector<int32_t>({3, 4}));
  std::vector<int32_t> values(2);
  Error error = processes[0]->receive(2, 7, {partOf(values)});
  EXPECT_EQ(error.status(), Status::Lost);
  EXPECT_EQ(error.message(), "rank 2 is lost: its connection to this rank has ended");
  error = send(0, 2, 7, std::vector<int32_t>(10'000'000));
  EXPECT_EQ(error.status(), Status::Lost);
  // The others go on.
  std::thread third([this] { EXPECT_EQ(receive(0, 1, 7, 2), std::vector<int32_t>({5, 6})); });
  EXPECT_FALSE(send(0, 1, 7, {5, 6}));
  third.join();
}

// Who was there and is gone before a line's first message.
TEST_F(SocketMessagesTest, NamesTheProcessThatDoesNotAnswer) {
  processes[0].reset();
  std::vector<int32_t> values(2);
  Error error = processes[1]->receive(0, 1, {partOf(values)});
  EXPECT_EQ(error.status(), Status::Lost);
  EXPECT_EQ(error.message().find("rank 0 is lost: it does not answer: 127.0.0.1:"), 0u) << error.message();
}

// Whoever does not know the run's number is not heard, says it nothing, too much or something else.
TEST_F(SocketMessagesTest, RefusesStrangers) {
  struct Hello {
    uint64_t token;
    uint32_t rank, line;
  };
  auto connect = [&] {
    std::string error;
    return connectToProcess("127.0.0.1", static_cast<uint16_t>(addresses[0].port), error);
  };
  std::vector<int> strangers;
  for (Hello hello : {Hello{addresses[0].token + 1, 1, 0}, Hello{addresses[0].token, 0, 0},
                      Hello{addresses[0].token, count, 0}, Hello{addresses[1].token, 1, 0}}) {
    strangers.push_back(connect());
    ASSERT_GE(strangers.back(), 0);
    ::send(strangers.back(), &hello, sizeof hello, MSG_NOSIGNAL);
  }
  strangers.push_back(connect());
  ::send(strangers.back(), "x", 1, MSG_NOSIGNAL);
  // Many say nothing, which is no reason not to hear the others.
  for (int silent = 0; silent != 300; ++silent)
    strangers.push_back(connect());
  std::thread first([this] { EXPECT_FALSE(send(1, 0, 0, {8, 9})); });
  EXPECT_EQ(receive(1, 0, 0, 2), std::vector<int32_t>({8, 9}));
  first.join();
  for (int stranger : strangers)
    close(stranger);
}

} // namespace
