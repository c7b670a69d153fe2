// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs of collectives against values computed by hand. Links of 1 GB/s and 1 ms, so that milliseconds are easy to
// count: 1 MB takes 1 ms.

#include "passes/cost/CollectiveCost.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

constexpr double megabyte = 1e6, ms = 1e-3;
constexpr LinkSpec slow = {1e9, 1 * ms}, fast = {10e9, 0.1 * ms};

// One device has nothing to communicate.
TEST(CollectiveCostTest, OneDevice) {
  LinkLevel alone{1, slow};
  EXPECT_EQ(allReduceSeconds(megabyte, alone), 0);
  EXPECT_EQ(allGatherSeconds(megabyte, alone), 0);
  EXPECT_EQ(reduceScatterSeconds(megabyte, {}), 0);
  EXPECT_EQ(allToAllSeconds(megabyte, alone), 0);
}

// 2(n-1) latency + 2(n-1)/n S/B = 6 + 2 * 3/4 * 400.
TEST(CollectiveCostTest, RingAllReduce) {
  EXPECT_NEAR(allReduceSeconds(400 * megabyte, LinkLevel{4, slow}), 606 * ms, 1e-9);
}

// 2 ceil(log2 n) latency + 2 S/B = 2 * 4 + 2 * 1 against 2 * 15 + 2 * 15/16 in a ring.
TEST(CollectiveCostTest, TreeAllReduce) {
  EXPECT_NEAR(allReduceSeconds(megabyte, LinkLevel{16, slow}), 10 * ms, 1e-9);
  // Nine devices need as many levels as sixteen.
  EXPECT_NEAR(allReduceSeconds(megabyte, LinkLevel{9, slow}), 10 * ms, 1e-9);
}

// Inside 4 devices: 2 (0.3 + 3/4 * 40) ms = 60.6; across 2 on a quarter of the bytes: 2 (1 + 1/2 * 100) = 102.
TEST(CollectiveCostTest, HierarchicalAllReduce) {
  LinkLevel levels[] = {{4, fast}, {2, slow}};
  EXPECT_NEAR(allReduceSeconds(400 * megabyte, levels), 162.6 * ms, 1e-9);
}

// The ring over all: 7 steps of 1 ms and 7/8 of 400 MB at what four devices have together across, 4 GB/s: 87.5 ms.
// Level after level: 1 + 1/2 * 100 and 0.3 + 3/4 * 40 = 81.3.
TEST(CollectiveCostTest, GatherOverLevels) {
  LinkLevel levels[] = {{4, fast}, {2, slow}};
  EXPECT_NEAR(allGatherSeconds(400 * megabyte, levels), 81.3 * ms, 1e-9);
  EXPECT_NEAR(reduceScatterSeconds(400 * megabyte, levels), 81.3 * ms, 1e-9);
  EXPECT_NEAR(allGatherSeconds(400 * megabyte, LinkLevel{8, slow}), (7 + 350) * ms, 1e-9);
}

// A ring crosses a level with what a group has together, but passes on no more than a device can inside.
TEST(CollectiveCostTest, RingOverLevels) {
  LinkLevel levels[] = {{4, fast}, {2, slow}};
  EXPECT_EQ(ringLink(levels), (LinkSpec{4e9, 1 * ms}));
  LinkLevel wide[] = {{16, fast}, {2, slow}};
  EXPECT_EQ(ringLink(wide), (LinkSpec{10e9, 1 * ms}));
}

// (n-1) latency + (n-1)/n^2 S/B = 3 + 3/16 * 1600.
TEST(CollectiveCostTest, AllToAll) {
  EXPECT_NEAR(allToAllSeconds(1600 * megabyte, LinkLevel{4, slow}), 303 * ms, 1e-9);
}

// Each of 8 devices holds 8 MB. Directly: 3 pairs inside of 1 MB (0.3 + 0.3) and 4 across (4 + 4) = 8.6. Level by
// level: 3/4 of 8 MB inside (0.3 + 0.6) and half of it across (1 + 4) = 5.9.
TEST(CollectiveCostTest, AllToAllOverLevels) {
  LinkLevel levels[] = {{4, fast}, {2, slow}};
  EXPECT_NEAR(allToAllSeconds(64 * megabyte, levels), 5.9 * ms, 1e-9);
  // With many bytes each pair directly, so that they move only once: 3 (0.1 + 10) and 4 (1 + 100).
  EXPECT_NEAR(allToAllSeconds(6400 * megabyte, levels), 434.3 * ms, 1e-9);
}

// Devices that combine 2 GB/s: 3/4 of 400 MB take 150 ms more where there is something to combine.
TEST(CollectiveCostTest, Combining) {
  LinkLevel level{4, {1e9, 1 * ms, 2e9}};
  EXPECT_NEAR(allReduceSeconds(400 * megabyte, level), (606 + 150) * ms, 1e-9);
  EXPECT_NEAR(reduceScatterSeconds(400 * megabyte, level), (303 + 150) * ms, 1e-9);
  EXPECT_NEAR(allGatherSeconds(400 * megabyte, level), 303 * ms, 1e-9);
  // In a tree once: 2 * 4 + 2 and 0.5.
  EXPECT_NEAR(allReduceSeconds(megabyte, LinkLevel{16, {1e9, 1 * ms, 2e9}}), 10.5 * ms, 1e-9);
}

TEST(CollectiveCostTest, Send) { EXPECT_NEAR(sendSeconds(5 * megabyte, slow), 6 * ms, 1e-9); }

} // namespace
