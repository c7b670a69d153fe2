// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the steps of a ring take, against a clock that runs them one by one; what attention takes both ways, against
// formulas written out by hand.

#include "passes/cost/KeyExchangeCost.h"

#include <gtest/gtest.h>
#include <numeric>

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

constexpr double peak = 1e12, memoryBandwidth = 1e11, alpha = 1e-5, linkBandwidth = 1e9;
constexpr double p = 4, queries = 256, keys = 1024, width = 64;

/// One head: a device has 256 queries, and a fourth of the keys and values.
class KeyTimesOnFour : public testing::Test {
protected:
  KeyTimesOnFour() {
    DeviceKind &kind = machine.kinds["plain"];
    kind.bandwidth = memoryBandwidth;
    kind.peak["f32"] = peak;
    HostSpec &host = machine.hosts.emplace_back();
    host.devices = {{"plain", 4}};
    host.link = LinkSpec{linkBandwidth, alpha};
    addDevices(machine);
    cut.devices = 4;
    cut.scoreFlops = cut.resultFlops = 2 * queries * keys * width;
    cut.queries = cut.result = 4 * queries * width;
    cut.keys = cut.values = 4 * keys * width;
    cut.scores = 4 * queries * keys;
    cut.numKeys = keys;
  }

  KeyTimes times() const {
    Topology topology(machine);
    std::vector<unsigned> devices(4);
    std::iota(devices.begin(), devices.end(), 0u);
    MeshCost links(topology, devices, {4});
    return keyTimes(cut, OperatorCost(machine, devices, "f32"), links, {0});
  }

  Machine machine;
  CutAttention cut;
};

constexpr double oneKeys = 4 * keys * width, allScores = 4 * queries * keys, oneResult = 4 * queries * width;
/// A product of that part of the keys, by the roofline.
double product(double part) {
  return std::max(2 * queries * keys * width * part / peak, (oneResult + oneKeys + allScores) * part / memoryBandwidth);
}
double memory(double bytes) { return bytes / memoryBandwidth; }
double passAround(double bytes) { return (p - 1) * alpha + (p - 1) / p * bytes / linkBandwidth; }
double hop() { return alpha + oneKeys / p / linkBandwidth; }

TEST_F(KeyTimesOnFour, AreThoseOfFormulasForward) {
  KeyTimes found = times();
  EXPECT_NEAR(found.gathered.forward.computing(), 2 * product(1) + memory(2 * allScores), 1e-12);
  EXPECT_NEAR(found.gathered.forward.exchange, 2 * passAround(oneKeys), 1e-12);
  double chunk = 2 * product(1 / p) + memory(2 * allScores / p), join = memory(3 * oneResult + 4 * 4 * queries);
  EXPECT_NEAR(found.ring.forward.seconds, ringSeconds(4, chunk, join, 2 * hop()), 1e-12);
  EXPECT_NEAR(found.ring.forward.computing(), p * chunk + (p - 1) * join, 1e-12);
  EXPECT_EQ(found.ring.backward.seconds, 0);
  EXPECT_EQ(found.gathered.backward.seconds, 0);
  // Three of four chunks of keys and values, and a chunk's scores and weights, in the place of all of them.
  EXPECT_EQ(found.ring.bytes, 3 * 2 * oneKeys / p + 2 * allScores / p);
  EXPECT_EQ(found.gathered.bytes, 2 * oneKeys + 2 * allScores);
}

TEST_F(KeyTimesOnFour, AreThoseOfFormulasBackward) {
  cut.training = true;
  KeyTimes found = times();
  EXPECT_NEAR(found.gathered.backward.computing(), 4 * product(1) + memory(4 * allScores), 1e-12);
  EXPECT_NEAR(found.gathered.backward.exchange, 2 * passAround(oneKeys), 1e-12);
  // The scores are made once more; gradients go on with keys and values, and home at the end.
  double chunk = 5 * product(1 / p) + memory(4 * allScores / p), join = memory(3 * oneResult);
  EXPECT_NEAR(found.ring.backward.seconds, ringSeconds(4, chunk, join, 4 * hop()) + 2 * hop(), 1e-12);
  // Keys and values have gradients, and so have weights and scores, which give way to the latter.
  EXPECT_EQ(found.ring.bytes, 2 * 3 * 2 * oneKeys / p + 3 * allScores / p);
}

// One kernel has no scores in memory; chunks' are.
TEST_F(KeyTimesOnFour, OneKernelReadsNoScores) {
  KeyTimes before = times();
  cut.isOneKernel = true;
  KeyTimes found = times();
  double streamed = std::max(2 * queries * keys * width / peak, (oneResult + oneKeys) / memoryBandwidth);
  EXPECT_NEAR(found.gathered.forward.computing(), 2 * streamed, 1e-12);
  EXPECT_EQ(found.gathered.bytes, 2 * oneKeys);
  EXPECT_EQ(found.ring.forward.seconds, before.ring.forward.seconds);
}

} // namespace
