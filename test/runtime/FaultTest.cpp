// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How runs of four processes end when one of them is killed, stopped or fails: all within seconds, with the right exit
// code and one message that names the rank, its device, instruction and model node. CLEAVE_FAULTS says how often a
// process is killed or stopped at a random moment, by default 4 times.

#include "MeshPlan.h"
#include "MpiRun.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

using std::chrono::seconds;

/// After a fault all must have ended within ten seconds. Most runs here begin within that time, too.
constexpr seconds limit(10);

/// Four devices, each of which doubles what it gets and sends it to the next.
PlanBuilder chainPlan() {
  constexpr int64_t size = 4;
  PlanBuilder builder;
  uint32_t x = builder.input("x", size), y = builder.output("y", size), twice = builder.kernel("twice", 1, size);
  for (uint32_t i = 0; i != 4; ++i)
    builder.device("d" + std::to_string(i));
  for (uint32_t device = 0; device != 4; ++device) {
    uint32_t in = builder.buffer(device, "in", size), out = builder.buffer(device, "out", size);
    Point last = device == 0 ? builder.loadInput(device, x, in)
                             : builder.receive(device, "get" + std::to_string(device), in, device - 1, device - 1);
    last = builder.call(device, "double" + std::to_string(device), twice, {in, out}, {last});
    if (device == 3)
      builder.storeOutput(device, y, out, {last});
    else
      builder.send(device, "give" + std::to_string(device), out, device + 1, device, {last});
  }
  return builder;
}

/// An instruction of rank 2 in one of the plans.
struct Place {
  const char *plan, *action, *node;
};
const Place places[] = {{"mesh.plan", "load parameter", "w"},  {"mesh.plan", "load input", "x"},
                        {"mesh.plan", "load index", "index"},  {"mesh.plan", "call", "double"},
                        {"mesh.plan", "copy", "copy"},         {"mesh.plan", "exchange", "gather"},
                        {"mesh.plan", "all_reduce", "reduce"}, {"mesh.plan", "reduce_scatter", "scatter"},
                        {"mesh.plan", "store output", "y"},    {"chain.plan", "receive", "get2"},
                        {"chain.plan", "send", "give2"}};

class FaultTest : public testing::Test {
protected:
  void SetUp() override {
    if (!MpiRun::isPossible())
      GTEST_SKIP() << "there is no mpirun";
    folder = std::filesystem::temp_directory_path() / ("cleave-fault-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    write("mesh.plan", meshPlan());
    write("chain.plan", chainPlan());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const char *file, const PlanBuilder &builder) const {
    std::vector<std::byte> bytes = builder.bytes();
    std::ofstream(folder / file, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  /// Arguments for many steps of a plan on four processes.
  static std::vector<std::string> steps(const std::string &plan, const std::vector<std::string> &more = {}) {
    std::vector<std::string> words = {"-n", "4", "cleave-run", plan, "--repeat", "1000000"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// What must hold after any fault.
  static void expectEnd(MpiRun &run, int code, const std::string &message, seconds within = limit) {
    auto ended = run.wait(within);
    ASSERT_TRUE(ended) << "still runs after " << within.count() << " s; " << run.errors();
    std::string errors = run.errors();
    EXPECT_EQ(*ended, code) << errors;
    EXPECT_EQ(countOf(errors, "error: "), 1u) << errors;
    EXPECT_EQ(countOf(errors, message), 1u) << "wanted " << message << ", got " << errors;
    EXPECT_TRUE(run.leavesNothing(seconds(5)));
  }

  /// Each instruction of rank 2 in turn meets a fault in the third step.
  void atEach(const std::string &what, const std::vector<std::string> &options, int code,
              const std::function<std::string(const Place &)> &message) const {
    for (const Place &place : places) {
      SCOPED_TRACE(std::string(place.action) + " " + what);
      MpiRun run(folder, steps(place.plan, options), std::string("2:") + place.action + ":2:" + what);
      expectEnd(run, code, message(place));
    }
  }
  static std::string at(const Place &place) {
    return std::string(" on device \"d2\" in ") + place.action + " at node \"" + place.node + "\"";
  }

  /// Waits until the process of a rank (or its guard) is there.
  static pid_t find(const MpiRun &run, unsigned rank, bool guard) {
    for (int i = 0; i != 500; ++i) {
      auto all = run.processes();
      bool guarded =
          std::ranges::any_of(all, [&](const RankProcess &each) { return each.rank == rank && each.isGuard; });
      for (const RankProcess &each : all)
        if (guarded && each.rank == rank && each.isGuard == guard)
          return each.process;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "rank " << rank << " is not there; " << run.errors();
    return 0;
  }

  /// Signals a process that runs steps.
  static void signalLater(const MpiRun &run, unsigned rank, bool guard, int signal) {
    pid_t process = find(run, rank, guard);
    std::this_thread::sleep_for(seconds(2));
    if (process != 0)
      kill(process, signal);
  }

  std::filesystem::path folder;
};

TEST_F(FaultTest, KilledAtEachInstruction) {
  atEach("kill", {}, 7, [](const Place &place) { return "error: rank 2 is lost: signal 9" + at(place) + "\n"; });
}

TEST_F(FaultTest, StoppedAtEachInstruction) {
  atEach("stop", {"--rank-timeout", "1"}, 8, [](const Place &place) { return "s" + at(place) + "\n"; });
}

TEST_F(FaultTest, FailsAtEachInstruction) {
  atEach("error", {}, 7, [](const Place &place) {
    return std::string("error: rank 2: device \"d2\", ") + place.action +
           ": this fault was asked for\nnote: at node \"" + place.node + "\"\n";
  });
}

// The default leaves time to end everything within ten seconds.
TEST_F(FaultTest, GivesUpWithinTenSeconds) {
  MpiRun run(folder, steps("mesh.plan"));
  signalLater(run, 1, false, SIGSTOP);
  auto stopped = MpiRun::Clock::now();
  expectEnd(run, 8, "error: rank 1 has been stopped for 8");
  EXPECT_LT(MpiRun::Clock::now() - stopped, seconds(10));
}

// A thread that hangs while its process runs counts only for those who ask: whoever works is named, not who waits.
TEST_F(FaultTest, HangingInstruction) {
  MpiRun run(folder, steps("mesh.plan", {"--step-timeout", "2"}), "2:call:2:hang");
  expectEnd(run, 8, "error: rank 2 has been on device \"d2\" in call at node \"double\" for ");
}

// An error ends all even when they do not come to agree on it: here because a peer hangs.
TEST_F(FaultTest, ErrorWhilePeersHang) {
  MpiRun run(folder, steps("chain.plan", {"--rank-timeout", "2"}), "1:call:0:hang,2:receive:0:error");
  expectEnd(run, 7, "error: rank 2: device \"d2\", receive: this fault was asked for\nnote: at node \"get2\"\n");
}

// The guards themselves: without one, its rank is lost, whoever it is.
TEST_F(FaultTest, GuardsAreWatched) {
  for (unsigned rank : {2u, 0u}) {
    SCOPED_TRACE(rank);
    MpiRun run(folder, steps("mesh.plan"));
    signalLater(run, rank, true, SIGKILL);
    // mpirun tells the signal of a process that it has started itself.
    expectEnd(run, 128 + SIGKILL, "error: rank " + std::to_string(rank) + " is lost: ");
  }
  for (unsigned rank : {2u, 0u}) {
    SCOPED_TRACE(rank);
    MpiRun run(folder, steps("mesh.plan", {"--rank-timeout", "2"}));
    signalLater(run, rank, true, SIGSTOP);
    expectEnd(run, 8,
              rank == 0 ? "error: rank 0 is lost: it has not answered for 2" : "error: rank 2 has not answered for 2");
  }
}

// Without mpirun nobody stays.
TEST_F(FaultTest, EndsWithMpirun) {
  MpiRun run(folder, steps("mesh.plan"));
  signalLater(run, 0, false, 0);
  kill(run.launcher(), SIGKILL);
  EXPECT_EQ(run.wait(limit), 128 + SIGKILL);
  EXPECT_TRUE(run.leavesNothing(seconds(10)));
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
    MpiRun run(folder, steps(i % 4 < 2 ? "mesh.plan" : "chain.plan", {"--in-flight", "3", "--rank-timeout", "2"}));
    pid_t process = find(run, rank, false);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    auto begin = MpiRun::Clock::now();
    ASSERT_EQ(kill(process, stops ? SIGSTOP : SIGKILL), 0) << run.errors();
    std::string name = "error: rank " + std::to_string(rank);
    expectEnd(run, stops ? 8 : 7, name + (stops ? " has been stopped for " : " is lost: signal 9"));
    EXPECT_LT(MpiRun::Clock::now() - begin, seconds(10));
  }
}

} // namespace
} // namespace cleave::runtime::test
