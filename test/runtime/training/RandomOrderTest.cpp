// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of samples: what the definition gives, computed by another program, and that all orders are as likely.

#include "runtime/training/RandomOrder.h"

#include <gtest/gtest.h>
#include <map>

namespace cleave::runtime::test {
namespace {

// Computed in Python from the definition, in integers of any size.
TEST(RandomOrder, IsWhatTheDefinitionGives) {
  EXPECT_EQ(randomOrder(10, 0, 0), (std::vector<uint64_t>{1, 2, 5, 7, 0, 8, 4, 3, 9, 6}));
  EXPECT_EQ(randomOrder(10, 7, 3), (std::vector<uint64_t>{5, 8, 7, 0, 4, 1, 9, 3, 2, 6}));
  EXPECT_EQ(randomOrder(10, 7, 4), (std::vector<uint64_t>{6, 2, 4, 3, 5, 9, 0, 1, 8, 7}));
}

TEST(RandomOrder, TakesFewSamples) {
  EXPECT_TRUE(randomOrder(0, 1, 0).empty());
  EXPECT_EQ(randomOrder(1, 1, 0), std::vector<uint64_t>{0});
}

// 24 orders of four samples, 24,000 epochs: the statistic of Pearson's test has 23 degrees of freedom, and exceeds 49.7
// with probability 0.001.
TEST(RandomOrder, AllOrdersAreAsLikely) {
  constexpr double each = 1000;
  std::map<std::vector<uint64_t>, double> counts;
  for (uint64_t epoch = 0; epoch != 24 * static_cast<uint64_t>(each); ++epoch)
    ++counts[randomOrder(4, 42, epoch)];
  EXPECT_EQ(counts.size(), 24u);
  double statistic = 0;
  for (auto [order, count] : counts)
    statistic += (count - each) * (count - each) / each;
  EXPECT_LT(statistic, 49.7);
}

} // namespace
} // namespace cleave::runtime::test
