// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Quotas of control groups, in folders made for it, and what affinity leaves of the host.

#include "runtime/HostTopology.h"
#include "runtime/drivers/cpu/CoreSet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

namespace cleave::runtime {
namespace {

class HostTopologyTest : public testing::Test {
protected:
  HostTopologyTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cleave-cgroup-XXXXXX").string();
    root = mkdtemp(name.data());
  }
  ~HostTopologyTest() override { std::filesystem::remove_all(root); }

  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  double quota(const std::string &membership) { return processorQuota(root.string(), membership); }

  std::filesystem::path root;
};

// The smallest limit on the way up counts, whichever group has it.
TEST_F(HostTopologyTest, SmallestQuotaOfAllGroups) {
  write("a/b/cpu.max", "400000 100000\n");
  write("a/cpu.max", "150000 100000\n");
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1.5);
  EXPECT_EQ(quota("0::/a/b/without/files\n"), 1.5);
  EXPECT_TRUE(std::isinf(quota("0::/\n")));
}

// A container's own group is the mount's root.
TEST_F(HostTopologyTest, QuotaOfContainers) {
  write("cpu.max", "200000 100000\n");
  EXPECT_EQ(quota("0::/system.slice/docker-0a1b.scope\n"), 2);
  EXPECT_EQ(quota("0::/\n"), 2);
}

TEST_F(HostTopologyTest, QuotaOfVersionOne) {
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("5:memory:/job\n4:cpu,cpuacct:/job\n"), 0.5);
  EXPECT_TRUE(std::isinf(quota("4:cpu,cpuacct:/\n")));
  EXPECT_TRUE(std::isinf(quota("5:cpuset:/job\n")));
}

TEST_F(HostTopologyTest, SmallestMemoryOfAllGroups) {
  write("a/b/memory.max", "8589934592\n");
  write("a/memory.max", "4294967296\n");
  write("memory.max", "max\n");
  write("memory/job/memory.limit_in_bytes", "1073741824\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  auto memory = [&](const std::string &membership) { return memoryQuota(root.string(), membership); };
  EXPECT_EQ(memory("0::/a/b\n"), 4294967296.0);
  EXPECT_TRUE(std::isinf(memory("0::/\n")));
  EXPECT_EQ(memory("4:cpu:/a\n5:memory:/job\n"), 1073741824.0);
  EXPECT_EQ(memory("5:memory:/\n"), 9223372036854771712.0);
  EXPECT_TRUE(std::isinf(memory("4:cpu:/a\n")));
}

// What cannot be read limits nothing.
TEST_F(HostTopologyTest, NoQuota) {
  write("a/cpu.max", "many 100000\n");
  write("b/cpu.max", "");
  for (const char *membership : {"", "0::/a\n", "0::/b\n", "0::/missing\n", "nonsense\n", "1:2"})
    EXPECT_TRUE(std::isinf(quota(membership))) << membership;
}

// A quota below one core is one thread, and one between numbers of cores is the smaller: the last thread of a team
// would hold up the others.
TEST_F(HostTopologyTest, UsableCores) {
  HostTopology host;
  host.cores = {0, 1, 2, 3};
  host.siblings = {4, 5, 6, 7};
  EXPECT_EQ(host.usableCores(), 4u);
  for (auto [quota, cores] : {std::pair(0.2, 1u), {1.0, 1u}, {2.9, 2u}, {64.0, 4u}}) {
    host.quota = quota;
    EXPECT_EQ(host.usableCores(), cores) << quota;
  }
}

// Every hardware thread of this process's affinity is a core's first one or a sibling, once.
TEST_F(HostTopologyTest, ThisHost) {
  const HostTopology &host = hostTopology();
  ASSERT_FALSE(host.cores.empty());
  CoreSet all = availableCores();
  EXPECT_EQ(all.size(), host.cores.size() + host.siblings.size());
  EXPECT_EQ(std::set<unsigned>(all.begin(), all.end()).size(), all.size());
  EXPECT_GT(host.memoryBytes, uint64_t(1) << 26);
}

} // namespace
} // namespace cleave::runtime
