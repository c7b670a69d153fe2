// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How runs of four processes end when one of them is killed, stopped or fails: all within seconds, with the right exit
// code and one message that names the rank, its device, instruction and model node. CLEAVE_FAULTS says how often a
// process is killed or stopped at a random moment, by default 4 times.

#include "FaultRuns.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

namespace cleave::runtime::test {
namespace {

class FaultTest : public FaultRuns {
protected:
  FaultTest() : FaultRuns("cleave-run", "cpu") {}

  /// Each instruction of rank 2 in turn meets a fault in the third step.
  void atEach(const std::string &what, const std::vector<std::string> &options, int code,
              const std::function<std::string(const FaultPlace &)> &message) const {
    for (const FaultPlace &place : faultPlaces())
      at(place, 2, what, options, code, message(place));
  }
};

TEST_F(FaultTest, KilledAtEachInstruction) {
  atEach("kill", {}, 7,
         [](const FaultPlace &place) { return "error: rank 2 is lost: signal 9" + textOf(place) + "\n"; });
}

TEST_F(FaultTest, StoppedAtEachInstruction) {
  atEach("stop", {"--rank-timeout", "1"}, 8, [](const FaultPlace &place) { return "s" + textOf(place) + "\n"; });
}

TEST_F(FaultTest, FailsAtEachInstruction) {
  atEach("error", {}, 7, [](const FaultPlace &place) {
    return std::string("error: rank 2: device \"d2\", ") + place.action +
           ": this fault was asked for\nnote: at node \"" + place.node + "\"\n";
  });
}

// The default leaves time to end everything within ten seconds. A machine may be busy with something else for some of
// them, but not each of three times.
TEST_F(FaultTest, GivesUpWithinTenSeconds) {
  auto shortest = MpiRun::Clock::duration::max();
  for (int i = 0; i != 3 && shortest >= seconds(10) && !HasFailure(); ++i) {
    MpiRun run = start("mesh.plan");
    signalLater(run, 1, false, SIGSTOP);
    auto stopped = MpiRun::Clock::now();
    expectEnd(run, 8, "error: rank 1 has been stopped for ");
    shortest = std::min(shortest, MpiRun::Clock::now() - stopped);
  }
  EXPECT_LT(shortest, seconds(10));
}

// A thread that hangs while its process runs counts only for those who ask: whoever works is named, not who waits.
TEST_F(FaultTest, HangingInstruction) {
  MpiRun run = start("mesh.plan", {"--step-timeout", "2"}, "2:call:2:hang");
  expectEnd(run, 8, "error: rank 2 has been on device \"d2\" in call at node \"double\" for ");
}

// An error ends all even when they do not come to agree on it: here because a peer hangs.
TEST_F(FaultTest, ErrorWhilePeersHang) {
  MpiRun run = start("chain.plan", {"--rank-timeout", "2"}, "1:call:0:hang,2:receive:0:error");
  expectEnd(run, 7, "error: rank 2: device \"d2\", receive: this fault was asked for\nnote: at node \"get2\"\n");
}

// The guards themselves: without one, its rank is lost, whoever it is.
TEST_F(FaultTest, GuardsAreWatched) {
  for (unsigned rank : {2u, 0u}) {
    SCOPED_TRACE(rank);
    MpiRun run = start("mesh.plan");
    signalLater(run, rank, true, SIGKILL);
    // mpirun tells the signal of a process that it has started itself.
    expectEnd(run, 128 + SIGKILL, "error: rank " + std::to_string(rank) + " is lost: ");
  }
  for (unsigned rank : {2u, 0u}) {
    SCOPED_TRACE(rank);
    MpiRun run = start("mesh.plan", {"--rank-timeout", "2"});
    signalLater(run, rank, true, SIGSTOP);
    expectEnd(run, 8,
              rank == 0 ? "error: rank 0 is lost: it has not answered for 2" : "error: rank 2 has not answered for 2");
  }
}

// Without mpirun nobody stays.
TEST_F(FaultTest, EndsWithMpirun) {
  MpiRun run = start("mesh.plan");
  signalLater(run, 0, false, 0);
  kill(run.launcher(), SIGKILL);
  EXPECT_EQ(run.wait(patience), 128 + SIGKILL);
  EXPECT_TRUE(run.leavesNothing(patience));
}

// At any moment, the start included.
TEST_F(FaultTest, RandomMoments) {
  const char *wanted = std::getenv("CLEAVE_FAULTS");
  int times = wanted ? std::atoi(wanted) : 4;
  auto seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i != times && !HasFailure(); ++i) {
    unsigned rank = random() % 4, milliseconds = random() % 3000;
    bool stops = i % 2 == 1;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", time " + std::to_string(i) + ", rank " + std::to_string(rank) +
                 " after " + std::to_string(milliseconds) + " ms");
    MpiRun run = start(i % 4 < 2 ? "mesh.plan" : "chain.plan", {"--in-flight", "3", "--rank-timeout", "2"});
    pid_t process = find(run, rank, false);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ASSERT_EQ(kill(process, stops ? SIGSTOP : SIGKILL), 0) << run.errors();
    std::string name = "error: rank " + std::to_string(rank);
    expectEnd(run, stops ? 8 : 7, name + (stops ? " has been stopped for " : " is lost: signal 9"));
  }
}

} // namespace
} // namespace cleave::runtime::test
