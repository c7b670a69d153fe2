// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the plans and judges the ends.

#include "FaultRuns.h"

#include "MeshPlan.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace cleave::runtime::test {

/// Four devices, each of which doubles what it gets and sends it to the next.
static PlanBuilder chainPlan(const std::string &driver) {
  constexpr int64_t size = 4;
  PlanBuilder builder(driver);
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

static void write(const std::filesystem::path &path, const PlanBuilder &builder) {
  std::vector<std::byte> bytes = builder.bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::span<const FaultPlace> faultPlaces() {
  static const FaultPlace places[] = {{"mesh.plan", "load parameter", "w"},  {"mesh.plan", "load input", "x"},
                                      {"mesh.plan", "load index", "index"},  {"mesh.plan", "call", "double"},
                                      {"mesh.plan", "copy", "copy"},         {"mesh.plan", "exchange", "gather"},
                                      {"mesh.plan", "all_reduce", "reduce"}, {"mesh.plan", "reduce_scatter", "scatter"},
                                      {"mesh.plan", "store output", "y"},    {"chain.plan", "receive", "get2"},
                                      {"chain.plan", "send", "give2"}};
  return places;
}

void FaultRuns::SetUp() {
  if (!MpiRun::isPossible())
    GTEST_SKIP() << "there is no mpirun";
  folder = std::filesystem::temp_directory_path() / ("cleave-fault-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  write(folder / "mesh.plan", meshPlan(driver));
  write(folder / "chain.plan", chainPlan(driver));
}

void FaultRuns::TearDown() { std::filesystem::remove_all(folder); }

MpiRun FaultRuns::start(const std::string &plan, const std::vector<std::string> &options,
                        const std::string &fault) const {
  std::vector<std::string> words = {"-n", "4", program, plan, "--repeat", "1000000"};
  words.insert(words.end(), options.begin(), options.end());
  return MpiRun(folder, words, fault, before);
}

void FaultRuns::expectEnd(MpiRun &run, int code, const std::string &message, seconds within) {
  auto ended = run.wait(within);
  ASSERT_TRUE(ended) << "still runs after " << within.count() << " s; " << run.errors();
  std::string errors = run.errors();
  EXPECT_EQ(*ended, code) << errors;
  EXPECT_EQ(countOf(errors, "error: "), 1u) << errors;
  EXPECT_EQ(countOf(errors, message), 1u) << "wanted " << message << ", got " << errors;
  EXPECT_TRUE(run.leavesNothing(patience));
}

void FaultRuns::at(const FaultPlace &place, int step, const std::string &what, const std::vector<std::string> &options,
                   int code, const std::string &message) const {
  SCOPED_TRACE(std::string(place.action) + " " + what);
  MpiRun run = start(place.plan, options, std::string("2:") + place.action + ":" + std::to_string(step) + ":" + what);
  expectEnd(run, code, message);
}

std::string FaultRuns::textOf(const FaultPlace &place) {
  return std::string(" on device \"d2\" in ") + place.action + " at node \"" + place.node + "\"";
}

pid_t FaultRuns::find(const MpiRun &run, unsigned rank, bool guard) {
  for (int i = 0; i != 500; ++i) {
    auto all = run.processes();
    bool guarded = std::ranges::any_of(all, [&](const RankProcess &each) { return each.rank == rank && each.isGuard; });
    for (const RankProcess &each : all)
      if (guarded && each.rank == rank && each.isGuard == guard)
        return each.process;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "rank " << rank << " is not there; " << run.errors();
  return 0;
}

void FaultRuns::signalLater(const MpiRun &run, unsigned rank, bool guard, int signal) {
  pid_t process = find(run, rank, guard);
  std::this_thread::sleep_for(seconds(2 * slowness)); // until they watch each other
  if (process != 0)
    kill(process, signal);
}

} // namespace cleave::runtime::test
