// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the simulator says of replicas where formulas say it, too.

#include "runtime/simulator/ReplicaSimulator.h"

#include <gtest/gtest.h>

namespace cleave::runtime::test {
namespace {

Replicas replicasOf(uint32_t count, std::optional<uint64_t> bound, uint32_t local = 0) {
  return {count, 1, bound, local};
}

std::vector<SimulatedReplica> alike(uint32_t count, double step) {
  SimulatedReplica one;
  one.step = step;
  one.threads = 1;
  return std::vector<SimulatedReplica>(count, one);
}

const std::vector<double> manyCores = {64};

// Those that step together take what the slowest takes, and the keeper after it.
TEST(ReplicaSimulator, TogetherTheSlowestCounts) {
  auto each = alike(4, 1.0);
  each[2].slowdown = 2;
  SimulatedReplica keeper = {.step = 0.25};
  EXPECT_NEAR(simulateReplicas(replicasOf(4, 0), each, keeper, manyCores).stepSeconds, 2.25, 1e-9);
}

// Without a bound each goes at its own pace: rates add up.
TEST(ReplicaSimulator, WithoutABoundRatesAddUp) {
  auto each = alike(4, 1.0);
  each[2].slowdown = 2;
  auto result = simulateReplicas(replicasOf(4, std::nullopt), each, {}, manyCores, 2000);
  EXPECT_NEAR(result.stepSeconds, 4 / 3.5, 0.01);
}

// With a bound all go at the pace of the slowest in the long run, however large it is; those ahead are as far ahead as
// they may be.
TEST(ReplicaSimulator, ABoundLeavesThePaceOfTheSlowest) {
  auto each = alike(4, 1.0);
  each[2].slowdown = 2;
  for (uint64_t bound : {1, 3, 10}) {
    auto result = simulateReplicas(replicasOf(4, bound), each, {}, manyCores, 400);
    EXPECT_NEAR(result.stepSeconds, 2, 0.05) << bound;
    EXPECT_LE(result.ahead.size(), bound + 1);
  }
}

// During a step each of the others makes a version, and of the straggler's steps twice as many.
TEST(ReplicaSimulator, OthersMakeVersionsDuringAStep) {
  auto none = simulateReplicas(replicasOf(4, 0), alike(4, 1.0), {}, manyCores);
  EXPECT_EQ(none.between, std::vector<double>{1});
  auto each = alike(4, 1.0);
  auto meanOf = [](const std::vector<double> &shares) {
    double mean = 0;
    for (size_t i = 0; i != shares.size(); ++i)
      mean += static_cast<double>(i) * shares[i];
    return mean;
  };
  EXPECT_NEAR(meanOf(simulateReplicas(replicasOf(4, std::nullopt), each, {}, manyCores, 2000).between), 3, 0.1);
  each[2].slowdown = 2;
  auto slow = simulateReplicas(replicasOf(4, std::nullopt), each, {}, manyCores, 2000);
  // In two seconds: six steps of one second with 2.5 versions of others, one of two with 6.
  EXPECT_NEAR(meanOf(slow.between), (6 * 2.5 + 6) / 7, 0.1);
}

// A keeper that is slower than all together makes the pace.
TEST(ReplicaSimulator, TheKeeperMayBeTheSlowest) {
  SimulatedReplica keeper = {.step = 1};
  EXPECT_NEAR(simulateReplicas(replicasOf(4, std::nullopt), alike(4, 1.0), keeper, manyCores).stepSeconds, 4, 0.05);
}

// Four that compute at once on two cores take twice as long.
TEST(ReplicaSimulator, CoresAreShared) {
  EXPECT_NEAR(simulateReplicas(replicasOf(4, 0), alike(4, 1.0), {}, {2}).stepSeconds, 2, 1e-9);
}

// Steps hide an exchange: what it takes on the links counts as far as it is longer than they are.
TEST(ReplicaSimulator, StepsHideExchanges) {
  auto each = alike(2, 1.0);
  for (SimulatedReplica &replica : each)
    replica.exchange = 0.5;
  SimulatedReplica keeper = {.step = 0.5};
  Replicas replicas = replicasOf(2, 0, 8);
  each[1].link = 1.5;
  EXPECT_NEAR(simulateReplicas(replicas, each, keeper, manyCores).stepSeconds, 1 + 2.5 / 8, 1e-9);
  replicas.overlap = 2;
  EXPECT_NEAR(simulateReplicas(replicas, each, keeper, manyCores).stepSeconds, 1 + 0.5 / 8, 1e-9);
  each[1].link = 4.5;
  EXPECT_NEAR(simulateReplicas(replicas, each, keeper, manyCores).stepSeconds, 1 + (0.5 + 5 - 2) / 8, 1e-9);
  replicas.overlap = 6;
  EXPECT_NEAR(simulateReplicas(replicas, each, keeper, manyCores).stepSeconds, 1 + 0.5 / 8, 1e-9);
}

// Local steps wait for each other once in so many.
TEST(ReplicaSimulator, LocalStepsExchangeRarely) {
  auto each = alike(2, 1.0);
  for (SimulatedReplica &replica : each)
    replica.exchange = 0.5;
  SimulatedReplica keeper = {.step = 0.5};
  EXPECT_NEAR(simulateReplicas(replicasOf(2, 0, 8), each, keeper, manyCores).stepSeconds, 1 + 1.0 / 8, 1e-9);
  // The links to the keeper are part of an exchange, of one replica here; without local steps each step is one.
  each[1].link = 4;
  EXPECT_NEAR(simulateReplicas(replicasOf(2, 0, 8), each, keeper, manyCores).stepSeconds, 1 + 5.0 / 8, 1e-9);
  EXPECT_NEAR(simulateReplicas(replicasOf(2, 0), each, keeper, manyCores).stepSeconds, 6, 1e-9);
}

} // namespace
} // namespace cleave::runtime::test
