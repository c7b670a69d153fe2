// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shards of parameters, beside the best of all divisions.

#include "passes/train/KeeperShards.h"

#include <gtest/gtest.h>
#include <random>

namespace cleave::test {
namespace {

uint64_t largest(llvm::ArrayRef<uint64_t> bytes, llvm::ArrayRef<unsigned> shardOf, unsigned shards) {
  std::vector<uint64_t> loads(shards);
  for (size_t index = 0; index != bytes.size(); ++index)
    loads[shardOf[index]] += bytes[index];
  return *llvm::max_element(loads);
}

/// By trying all divisions.
uint64_t best(llvm::ArrayRef<uint64_t> bytes, unsigned shards) {
  std::vector<unsigned> shardOf(bytes.size());
  for (uint64_t least = UINT64_MAX;;) {
    least = std::min(least, largest(bytes, shardOf, shards));
    size_t index = 0;
    while (index != shardOf.size() && ++shardOf[index] == shards)
      shardOf[index++] = 0;
    if (index == shardOf.size())
      return least;
  }
}

// Longest processing time first is at most 4/3 - 1/(3 m) of the best (Graham, 1969).
TEST(KeeperShards, AreBalanced) {
  std::mt19937 random(3);
  for (unsigned run = 0; run != 200; ++run) {
    unsigned shards = 1 + random() % 3;
    std::vector<uint64_t> bytes(1 + random() % 8);
    for (uint64_t &each : bytes)
      each = 4 * (1 + random() % 100);
    std::vector<unsigned> shardOf = balanceShards(bytes, shards);
    EXPECT_LE(3 * shards * largest(bytes, shardOf, shards), (4 * shards - 1) * best(bytes, shards));
  }
}

// Biases are small beside weights and fill up what is left; of equal ones the first is in the first shard.
TEST(KeeperShards, AreTheSameInEachCompilation) {
  EXPECT_EQ(balanceShards({100, 1, 100, 1, 60}, 2), (std::vector<unsigned>{0, 1, 1, 1, 0}));
  EXPECT_EQ(balanceShards({5, 5, 5}, 4), (std::vector<unsigned>{0, 1, 2}));
}

} // namespace
} // namespace cleave::test
