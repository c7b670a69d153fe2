// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of four ranks on two hosts: that they compute, and how they end when a rank dies or a host is cut off.

#include "MeshPlan.h"
#include "MpiRun.h"
#include "TwoHosts.h"

#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <thread>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

using std::chrono::seconds;

class HostsTest : public testing::Test {
protected:
  void SetUp() override {
    if (!MpiRun::isPossible())
      GTEST_SKIP() << "there is no mpirun";
    folder = std::filesystem::temp_directory_path() / ("cleave-hosts-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    hosts.emplace(folder);
    if (!*hosts)
      GTEST_SKIP() << "network namespaces cannot be made here";
    std::vector<std::byte> bytes = meshPlan().bytes();
    std::ofstream(folder / "mesh.plan", std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void TearDown() override {
    hosts.reset();
    if (!folder.empty())
      std::filesystem::remove_all(folder);
  }

  /// mpirun's arguments for a run of the plan.
  std::vector<std::string> arguments(const std::vector<std::string> &more) const {
    std::vector<std::string> words = hosts->options();
    for (const char *word : {"-n", "4", "cleave-run", "mesh.plan"})
      words.emplace_back(word);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Waits until a run has been in its steps for a while.
  static void settle(const MpiRun &run) {
    for (int i = 0; i != 200 && run.errors().find("filled with random") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::this_thread::sleep_for(seconds(3));
  }

  std::filesystem::path folder;
  std::optional<TwoHosts> hosts;
};

// Transfers, collectives, the agreement at the start and the guards all go between hosts.
TEST_F(HostsTest, Computes) {
  std::ofstream(folder / "x.raw", std::ios::binary)
      .write(reinterpret_cast<const char *>(std::array<float, 10>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}.data()), 40);
  std::ofstream(folder / "y.raw", std::ios::binary)
      .write(
          reinterpret_cast<const char *>(std::array<float, 10>{32, 64, 96, 128, 160, 192, 224, 256, 288, 320}.data()),
          40);
  MpiRun run(folder, arguments({"--input", "x=x.raw", "--expect", "y=y.raw", "--rtol", "0", "--atol", "0"}), "",
             hosts->onAlpha());
  EXPECT_EQ(run.wait(seconds(60)), 0) << run.errors();
}

// The message names the host, which the rank that dies cannot say.
TEST_F(HostsTest, RankDies) {
  MpiRun run(folder, arguments({"--repeat", "1000000"}), "3:all_reduce:2:kill", hosts->onAlpha());
  EXPECT_EQ(run.wait(seconds(60)), 7) << run.errors();
  EXPECT_EQ(countOf(run.errors(), "error: rank 3 on host \"beta\" is lost: signal 9 on device \"d3\" in all_reduce at "
                                  "node \"reduce\"\n"),
            1u)
      << run.errors();
  EXPECT_TRUE(run.leavesNothing(seconds(10)));
}

// Both sides end by themselves, and nobody stays on either.
TEST_F(HostsTest, HostIsCutOff) {
  MpiRun run(folder, arguments({"--repeat", "1000000", "--rank-timeout", "2"}), "", hosts->onAlpha());
  settle(run);
  hosts->cut();
  EXPECT_EQ(run.wait(seconds(60)), 8) << run.errors();
  EXPECT_EQ(countOf(run.errors(), "error: rank "), 1u) << run.errors();
  EXPECT_EQ(countOf(run.errors(), " on host \"beta\" has not answered for "), 1u) << run.errors();
  EXPECT_TRUE(run.leavesNothing(seconds(60)));
}

} // namespace
} // namespace cleave::runtime::test
