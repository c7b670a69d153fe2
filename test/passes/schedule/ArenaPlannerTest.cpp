// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory planning: no two values at the same bytes at the same time, and as small as can be.

#include "passes/schedule/ArenaPlanner.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace cleave::schedule;

namespace {

void expectDisjoint(const std::vector<LiveRange> &ranges, const ArenaPlan &plan) {
  for (size_t i = 0; i != ranges.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0u);
    EXPECT_LE(plan.offsets[i] + ranges[i].bytes, plan.bytes);
    for (size_t j = 0; j != i; ++j)
      EXPECT_TRUE(ranges[i].last < ranges[j].first || ranges[j].last < ranges[i].first ||
                  plan.offsets[i] + ranges[i].bytes <= plan.offsets[j] ||
                  plan.offsets[j] + ranges[j].bytes <= plan.offsets[i])
          << i << " and " << j;
  }
}

std::vector<LiveRange> randomRanges(uint64_t seed, unsigned count, unsigned positions) {
  std::mt19937_64 random(seed);
  std::vector<LiveRange> ranges;
  for (unsigned i = 0; i != count; ++i) {
    unsigned first = random() % positions;
    ranges.push_back({64 * (1 + random() % 8), first, first + static_cast<unsigned>(random() % 4)});
  }
  return ranges;
}

/// The smallest arena: over all orders, each range as low as it can go. Some order gives the optimum, as in the optimum
/// the ranges can be let down one after the other from the lowest to the highest.
uint64_t smallestArena(const std::vector<LiveRange> &ranges) {
  std::vector<unsigned> order(ranges.size());
  std::iota(order.begin(), order.end(), 0u);
  uint64_t smallest = UINT64_MAX;
  do {
    std::vector<uint64_t> offsets(ranges.size());
    uint64_t height = 0;
    for (size_t i = 0; i != order.size(); ++i) {
      uint64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j = 0; j != i; ++j)
          if (ranges[order[i]].meets(ranges[order[j]]) && offset < offsets[order[j]] + ranges[order[j]].bytes &&
              offsets[order[j]] < offset + ranges[order[i]].bytes) {
            offset = offsets[order[j]] + ranges[order[j]].bytes;
            moved = true;
          }
      }
      offsets[order[i]] = offset;
      height = std::max(height, offset + ranges[order[i]].bytes);
    }
    smallest = std::min(smallest, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return smallest;
}

// On small cases the planner finds what an exhaustive search finds.
TEST(ArenaPlanner, IsExactOnSmallCases) {
  for (uint64_t seed = 0; seed != 60; ++seed) {
    std::vector<LiveRange> ranges = randomRanges(seed, 7, 6);
    ArenaPlan plan = planArena(ranges);
    expectDisjoint(ranges, plan);
    EXPECT_EQ(plan.bytes, smallestArena(ranges)) << "seed " << seed;
  }
}

// On larger ones it stays within a tenth of the largest live set.
TEST(ArenaPlanner, StaysCloseToTheLargestLiveSet) {
  for (uint64_t seed = 0; seed != 20; ++seed) {
    std::vector<LiveRange> ranges = randomRanges(seed, 200, 100);
    ArenaPlan plan = planArena(ranges);
    expectDisjoint(ranges, plan);
    EXPECT_LE(plan.bytes * 10, largestLiveSet(ranges) * 11) << "seed " << seed;
  }
}

// Values that are never live together take the same bytes.
TEST(ArenaPlanner, ReusesBytes) {
  ArenaPlan plan = planArena({{100, 0, 1}, {100, 2, 3}, {128, 4, 4}});
  EXPECT_EQ(plan.bytes, 128u);
  EXPECT_EQ(plan.offsets, (std::vector<uint64_t>{0, 0, 0}));
}

// A program without values needs no arena, and a value without bytes none of it.
TEST(ArenaPlanner, TakesNothing) {
  EXPECT_EQ(planArena({}).bytes, 0u);
  EXPECT_EQ(planArena({{0, 0, 3}}).bytes, 0u);
}

// The lower bound counts what is live at one position, sizes rounded up: here 64 + 128 at position 2.
TEST(LiveRange, LargestLiveSetIsCountedByPosition) {
  EXPECT_EQ(largestLiveSet({{64, 0, 1}, {100, 2, 3}, {1, 1, 2}}), 192u);
}

} // namespace
