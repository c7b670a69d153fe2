// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When a bucket of collectives is full, against all sizes that could be tried.

#include "passes/distribute/CombineCollectives.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

// Of G bytes in buckets of S, G / S latencies and the bytes of the last bucket are not hidden.
TEST(BucketBytes, CostLeast) {
  constexpr double total = 64e6, latency = 20e-6, bandwidth = 5e9;
  auto seconds = [&](double bytes) { return latency + bytes / bandwidth; };
  auto exposed = [&](double bucket) { return total / bucket * latency + bucket / bandwidth; };
  double chosen = bucketBytes(total, seconds);
  for (double other = 1e3; other < total; other *= 1.01)
    EXPECT_LE(exposed(chosen), exposed(other) * (1 + 1e-12)) << other;
}

// Without latency every collective goes alone; where bytes take no time, all share a message.
TEST(BucketBytes, LimitsOfLinks) {
  EXPECT_EQ(bucketBytes(1000, [](double bytes) { return bytes / 1e9; }), 0);
  EXPECT_EQ(bucketBytes(1000, [](double bytes) { return 1e-6; }), 1000);
}

} // namespace
