// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conformance tests of communicators for MPI, and of the processes themselves: a program to be started by mpirun.
// Every process runs the same tests in the same order.

#include "CommunicatorConformance.h"

#include "runtime/communicators/mpi/MpiProcesses.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace cleave::runtime::test {
namespace {

std::unique_ptr<Processes> processes;

/// Ways to divide sites among the processes: in turn, and two at a time.
uint32_t inTurn(uint32_t site) { return site % processes->count(); }
uint32_t inPairs(uint32_t site) { return site / 2 % processes->count(); }

template <uint32_t (*rankOf)(uint32_t)> bool isHere(uint32_t site) { return rankOf(site) == processes->rank(); }

template <uint32_t (*rankOf)(uint32_t)> std::unique_ptr<Communicator> create(const Channels &channels) {
  std::vector<uint32_t> rankOfSite;
  for (uint32_t site = 0; site != channels.sites().size(); ++site)
    rankOfSite.push_back(rankOf(site));
  auto communicator = processes->createCommunicator(channels, rankOfSite);
  EXPECT_TRUE(communicator) << communicator.error().text();
  return communicator ? std::move(*communicator) : nullptr;
}

const CommunicatorKind kinds[] = {{"in_turn", isHere<inTurn>, create<inTurn>},
                                  {"in_pairs", isHere<inPairs>, create<inPairs>}};
INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorConformanceTest, testing::ValuesIn(kinds),
                         [](const auto &info) { return info.param.name; });

// Nobody's error is success; of several errors the first rank's counts, and of one that has come from another process
// that one's own.
TEST(MpiProcessesTest, AgreesOnFirstError) {
  uint32_t last = processes->count() - 1, rank = processes->rank();
  EXPECT_FALSE(processes->agree({}));
  Error own = makeError(Status::Infeasible, "no memory");
  Error agreed = processes->agree(rank == last ? own.atNode("conv") : Error::success());
  EXPECT_EQ(agreed.message(), last == 0 ? "no memory" : "rank " + std::to_string(last) + ": no memory");
  EXPECT_EQ(agreed.status(), Status::Infeasible);
  EXPECT_EQ(agreed.node(), "conv");
  EXPECT_EQ(processes->agree(own).message(), "no memory");
  agreed = processes->agree(rank == last ? own : atRank(own, last));
  EXPECT_EQ(agreed.message(), last == 0 ? "no memory" : "rank " + std::to_string(last) + ": no memory");
}

// Bytes of any number come together at rank 0.
TEST(MpiProcessesTest, Gathers) {
  std::vector<std::byte> own(processes->rank() * 100000, std::byte(processes->rank()));
  auto all = processes->gather(own);
  ASSERT_EQ(all.size(), processes->rank() == 0 ? processes->count() : 0u);
  for (size_t rank = 0; rank != all.size(); ++rank)
    EXPECT_EQ(all[rank], std::vector<std::byte>(rank * 100000, std::byte(rank)));
}

// Messages have parts of any size and come in order on their line, whatever other lines between the processes do.
TEST(MpiProcessesTest, SendsMessagesOnLines) {
  auto created = processes->createMessages();
  ASSERT_TRUE(created);
  Messages *messages = created->get();
  constexpr uint32_t lines = 3, rounds = 20;
  const uint32_t rank = processes->rank();
  // Rank 0 sends each part to each other process, which sends it back.
  auto serve = [&](uint32_t other, uint32_t line) {
    std::vector<int32_t> first(line == 0 ? 300'000 : 5), second(7);
    for (uint32_t round = 0; round != rounds; ++round) {
      auto fill = [&](int32_t add) {
        std::ranges::fill(first, static_cast<int32_t>(other * 100 + line * 1000 + round) + add);
        std::ranges::fill(second, static_cast<int32_t>(round) + add);
      };
      Messages::Parts all = {std::as_writable_bytes(std::span(first)), {}, std::as_writable_bytes(std::span(second))};
      if (rank == 0) {
        fill(0);
        EXPECT_FALSE(messages->send(other, line, {all.begin(), all.end()}));
        EXPECT_FALSE(messages->receive(other, line, all));
      } else {
        EXPECT_FALSE(messages->receive(0, line, all));
      }
      int32_t added = rank == 0 ? 1 : 0;
      EXPECT_EQ(first.back(), static_cast<int32_t>(other * 100 + line * 1000 + round) + added);
      EXPECT_EQ(second.front(), static_cast<int32_t>(round) + added);
      if (rank != 0) {
        fill(1);
        EXPECT_FALSE(messages->send(0, line, {all.begin(), all.end()}));
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t other = 1; other != processes->count(); ++other)
    for (uint32_t line = 0; line != lines; ++line)
      if (rank == 0 || rank == other)
        threads.emplace_back(serve, other, line);
  for (std::thread &thread : threads)
    thread.join();
}

// Processes of one machine have one clock.
TEST(MpiProcessesTest, TellsClocksApart) { EXPECT_EQ(processes->clockOffset(), 0); }

/// Says what has failed, and where, and nothing else: rank 0 says the rest for all.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult &result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %u: %s:%d: %s\n", processes->rank(), result.file_name(), result.line_number(),
                   result.message());
  }
};

} // namespace
} // namespace cleave::runtime::test

int main(int argc, char **argv) {
  using namespace cleave::runtime;
  testing::InitGoogleTest(&argc, argv);
  auto started = startMpi();
  if (!started) {
    std::fprintf(stderr, "error: %s\n", started.error().message().c_str());
    return EXIT_FAILURE;
  }
  test::processes = std::move(*started);
  if (test::processes->rank() != 0) {
    auto &listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new test::FailurePrinter);
  }
  int code = RUN_ALL_TESTS();
  test::processes.reset();
  return code;
}
