// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// This host's speed: measured, guessed, and what is said when the measurements cannot be used.

#include "passes/cost/HostCache.h"
#include "passes/cost/MachineFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace cleave;

namespace {

/// A cache folder of its own.
class HostCacheTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("cleave-cache", folder));
    setenv("CLEAVE_CACHE", folder.c_str(), 1);
  }
  void TearDown() override {
    llvm::sys::fs::remove_directories(folder);
    unsetenv("CLEAVE_CACHE");
  }
  void keep(llvm::StringRef text) {
    std::error_code code;
    llvm::raw_fd_ostream(hostCacheFile(), code) << text;
    ASSERT_FALSE(code);
  }
  Machine host(llvm::StringRef text) {
    auto machine = parseMachine(text);
    EXPECT_TRUE(bool(machine));
    return machine ? std::move(*machine) : Machine();
  }

  llvm::SmallString<128> folder;
};

constexpr llvm::StringLiteral measured = R"(
device_kinds:
  cpu-1: { driver: cpu, bandwidth: 10 GB/s, peak: { f32: 100 GFLOP/s }, launch: 1 us }
  cpu-2: { driver: cpu, cores: 2, bandwidth: 18 GB/s, peak: { f32: 190 GFLOP/s }, launch: 2 us }
hosts:
  - devices: [ { kind: cpu-1, count: 2 } ]
    links: [ { between: devices, bandwidth: 7 GB/s, latency: 4 us } ]
)";

// Without measurements: guesses, and a hint. The devices themselves are the same.
TEST_F(HostCacheTest, Guess) {
  Machine machine = host("host:2x1");
  ASSERT_EQ(machine.devices.size(), 2u);
  EXPECT_EQ(machine.devices[1].kind, "cpu-1");
  EXPECT_EQ(machine.devices[1].driver, "cpu");
  EXPECT_EQ(machine.kinds.at("cpu-1").peak.at("f32"), 80e9);
  EXPECT_TRUE(machine.warnings.empty());
  ASSERT_EQ(machine.notes.size(), 1u);
  EXPECT_NE(machine.notes[0].find("cleave probe"), std::string::npos);
}

// With them: kinds by cores and the link.
TEST_F(HostCacheTest, Measured) {
  keep(measured);
  Machine machine = host("host:2x1");
  EXPECT_TRUE(machine.notes.empty());
  EXPECT_EQ(machine.kinds.at("cpu-1").peak.at("f32"), 100e9);
  EXPECT_EQ(machine.devices[0].memoryLimit, 0u);
  ASSERT_EQ(machine.hosts.size(), 1u);
  EXPECT_EQ(*machine.hosts[0].link, (LinkSpec{7e9, 4e-6}));
  EXPECT_EQ(host("host:1x2").devices[0].kind, "cpu-" + std::to_string(std::min(hostCores(), 2u)));
  // More cores than were measured together: the largest kind; no more than there are.
  EXPECT_EQ(host("host:1x64").devices[0].kind, "cpu-" + std::to_string(std::min(hostCores(), 2u)));
  EXPECT_EQ(machine.hosts[0].cores, hostCores());
}

// A file that is damaged, or is not ours: its name, and guesses.
TEST_F(HostCacheTest, Unusable) {
  for (llvm::StringRef text :
       {"device_kinds: [", "{}", "device_kinds: { x: {} }\nhosts: [ { devices: [ { kind: x } ] } ]"}) {
    keep(text);
    Machine machine = host("host:2x1");
    ASSERT_EQ(machine.warnings.size(), 1u);
    EXPECT_NE(machine.warnings[0].find(hostCacheFile()), std::string::npos) << machine.warnings[0];
    EXPECT_EQ(machine.kinds.at("cpu-1").peak.at("f32"), 80e9);
  }
}

// $CLEAVE_CACHE comes before $XDG_CACHE_HOME, and that before ~/.cache.
TEST_F(HostCacheTest, Folder) {
  EXPECT_EQ(cacheFolder(), folder.str());
  unsetenv("CLEAVE_CACHE");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(cacheFolder(), "/xdg/cleave");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(cacheFolder(), "/home/somebody/.cache/cleave");
  unsetenv("HOME");
  EXPECT_EQ(cacheFolder(), "");
  EXPECT_EQ(hostCacheFile(), "");
}

// One file a kind of processor and number of cores, without characters that a file system minds.
TEST_F(HostCacheTest, FileName) {
  std::string kept = hostCacheFile();
  EXPECT_NE(kept.find("-" + std::to_string(hostCores()) + "-cores.yaml"), std::string::npos);
  EXPECT_EQ(llvm::StringRef(kept).drop_front(folder.size() + 1).find_first_of(" ()/,"), llvm::StringRef::npos);
}

} // namespace
