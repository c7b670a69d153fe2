// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the steps of a ring take, against a clock that runs them one by one.

#include "passes/distribute/KeyRingCost.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

/// A device computes with a chunk when it is there and the one before is done; it passes a chunk on when it is there
/// and the one before that has been computed with.
double clockOf(int64_t steps, double chunk, double join, double hop) {
  double computed = chunk, there = hop;
  for (int64_t step = 1; step != steps; ++step) {
    double begin = std::max(computed, there);
    there = begin + hop;
    computed = begin + chunk + join;
  }
  return computed;
}

// Where chunks take longer than their way, or as long, nothing of the way is seen. Where the way takes longer, one more
// chunk is computed with at the end.
TEST(RingSeconds, AreThoseOfAClock) {
  for (int64_t steps : {2, 3, 8, 64})
    for (double hop : {0.0, 0.5, 1.0}) {
      EXPECT_DOUBLE_EQ(ringSeconds(steps, 1, 0, hop), static_cast<double>(steps));
      EXPECT_DOUBLE_EQ(ringSeconds(steps, 1, 0.25, hop), clockOf(steps, 1, 0.25, hop));
    }
  for (double hop : {2.0, 5.0})
    EXPECT_DOUBLE_EQ(ringSeconds(4, 1, 0.25, hop), clockOf(4, 1, 0.25, hop));
}

} // namespace
