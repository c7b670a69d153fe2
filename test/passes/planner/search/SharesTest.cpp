// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Batches in proportion to the speed of devices.

#include "ModelGraph.h"

#include "passes/cost/MachineFile.h"
#include "passes/planner/search/Shares.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

using namespace cleave;
using namespace cleave::search;

namespace {

/// The least time in which the last group is done, by trying all ways to divide samples.
double leastByTrying(llvm::ArrayRef<ShareGroup> groups, int64_t samples) {
  auto secondsOf = [](const ShareGroup &group, int64_t own) {
    int64_t most = own / group.coordinates + (own % group.coordinates != 0);
    return static_cast<double>(most) / group.speed;
  };
  if (groups.size() == 1)
    return secondsOf(groups.front(), samples);
  double least = std::numeric_limits<double>::infinity();
  for (int64_t own = 0; own <= samples; ++own)
    least =
        std::min(least, std::max(secondsOf(groups.front(), own), leastByTrying(groups.drop_front(), samples - own)));
  return least;
}

TEST(Shares, AreDividedBest) {
  std::mt19937 random(3);
  for (unsigned trial = 0; trial != 200; ++trial) {
    std::vector<ShareGroup> groups(2 + random() % 2);
    for (ShareGroup &group : groups)
      group = {1 + static_cast<int64_t>(random() % 4), 0.5 + static_cast<double>(random() % 16) / 4};
    auto samples = static_cast<int64_t>(1 + random() % 24);
    double last = divideSamples(groups, samples);
    int64_t sum = 0;
    for (const ShareGroup &group : groups)
      sum += group.samples;
    EXPECT_EQ(sum, samples);
    EXPECT_DOUBLE_EQ(last, leastByTrying(groups, samples)) << "trial " << trial;
  }
}

/// The least time in which the last group is done where groups take multiples of their coordinates, by trying all.
double leastEvenlyByTrying(llvm::ArrayRef<ShareGroup> groups, int64_t samples) {
  double least = std::numeric_limits<double>::infinity();
  const ShareGroup &group = groups.front();
  for (int64_t each = 1; each * group.coordinates <= samples; ++each) {
    int64_t left = samples - each * group.coordinates;
    double own = static_cast<double>(each) / group.speed;
    if (groups.size() > 1)
      least = std::min(least, std::max(own, leastEvenlyByTrying(groups.drop_front(), left)));
    else if (left == 0)
      least = std::min(least, own);
  }
  return least;
}

TEST(Shares, AreDividedEvenly) {
  std::mt19937 random(4);
  unsigned divided = 0;
  for (unsigned trial = 0; trial != 300; ++trial) {
    std::vector<ShareGroup> groups(1 + random() % 3);
    for (ShareGroup &group : groups)
      group = {1 + static_cast<int64_t>(random() % 4), 0.5 + static_cast<double>(random() % 16) / 4};
    auto samples = static_cast<int64_t>(1 + random() % 24);
    std::optional<double> last = divideEvenly(groups, samples);
    double least = leastEvenlyByTrying(groups, samples);
    ASSERT_EQ(last.has_value(), least < std::numeric_limits<double>::infinity()) << "trial " << trial;
    if (!last)
      continue;
    ++divided;
    EXPECT_DOUBLE_EQ(*last, least) << "trial " << trial;
    int64_t sum = 0;
    double longest = 0;
    for (const ShareGroup &group : groups) {
      EXPECT_GT(group.samples, 0);
      EXPECT_EQ(group.samples % group.coordinates, 0);
      sum += group.samples;
      longest = std::max(longest, static_cast<double>(group.samples / group.coordinates) / group.speed);
    }
    EXPECT_EQ(sum, samples);
    EXPECT_DOUBLE_EQ(longest, least);
  }
  EXPECT_GT(divided, 100u);
}

/// `slow` devices and one that is `faster` times as fast; links cost next to nothing.
Machine machineOf(unsigned slow, double faster) {
  auto kind = [](const char *name, double speed) {
    return "  " + std::string(name) + ": { memory: 16 GiB, bandwidth: " + std::to_string(200 * speed) +
           " GB/s, peak: { f32: " + std::to_string(4 * speed) + " TFLOP/s } }\n";
  };
  auto machine = parseMachineFile(
      "device_kinds:\n" + kind("fast", faster) + kind("slow", 1) +
          "hosts:\n  - { devices: [ { kind: fast, count: 1 }, { kind: slow, count: " + std::to_string(slow) +
          " } ], links: [ { between: devices, bandwidth: 20000 GB/s, latency: 1 ns } ] }\n",
      "test.yaml");
  if (!machine)
    throw std::runtime_error(llvm::toString(machine.takeError()));
  return std::move(*machine);
}

double secondsOn(const ModelGraph &model, const Machine &machine, bool training, Degrees degrees = {}) {
  SearchRequest request;
  request.training = training;
  request.considersOthers = false;
  request.degrees = std::move(degrees);
  auto found = findPlan(model.graph, machine, request);
  return std::holds_alternative<FoundPlan>(found) ? std::get<FoundPlan>(found).seconds : -1;
}

// A device that is s times as fast as the n others does s / (s + n) of the work: a step takes s / (s + n) of what the
// fast one takes by itself, but for the weights, which all read and change, and samples, which are whole.
TEST(Shares, ComeNearTheIdeal) {
  ModelGraph model("mlp", {{"layers", 4}, {"inputs", 256}, {"hidden", 256}, {"classes", 64}, {"batch", 8192}});
  Degrees one;
  one.data = 1;
  for (auto [slow, faster] : {std::pair(1u, 2.0), {2u, 2.0}, {3u, 1.5}, {2u, 3.0}})
    for (bool training : {false, true}) {
      Machine machine = machineOf(slow, faster);
      double alone = secondsOn(model, machine, training, one), ideal = alone * faster / (faster + slow);
      double shared = secondsOn(model, machine, training);
      EXPECT_LE(shared, ideal * 1.1) << slow << " beside one that is " << faster << " times as fast";
      EXPECT_GE(shared, ideal * 0.999) << slow << " beside one that is " << faster << " times as fast";
    }
}

// What a device takes with its part is what it takes by itself with a batch of that size, weights and all: with links
// that cost nothing, a step takes as long as the slowest part.
TEST(Shares, TakeWhatTheirPartsTake) {
  auto sizesOf = [](int64_t batch) {
    return std::map<std::string, int64_t>{
        {"layers", 3}, {"inputs", 512}, {"hidden", 512}, {"classes", 64}, {"batch", batch}};
  };
  for (int64_t batch : {24, 37, 512})
    for (auto [slow, faster] : {std::pair(1u, 2.0), {2u, 3.0}}) {
      Machine machine = machineOf(slow, faster);
      SearchRequest request;
      request.considersOthers = false;
      auto shared = findShares(ModelGraph("mlp", sizesOf(batch)).graph, machine, request);
      ASSERT_TRUE(shared);
      const MeshAxis &axis = shared->stages.front().axes.front();
      int64_t sum = 0;
      for (int64_t share : axis.shares)
        sum += share;
      double slowest = 0;
      for (auto [device, share] : llvm::zip_equal(shared->stages.front().devices, axis.shares)) {
        Machine alone = machine;
        alone.devices = {machine.devices[device]};
        alone.hosts.front().devices = {{machine.devices[device].kind, 1}};
        double own = secondsOn(ModelGraph("mlp", sizesOf((batch * share + sum - 1) / sum)), alone, false);
        slowest = std::max(slowest, own);
      }
      EXPECT_NEAR(shared->seconds / slowest, 1, 0.05) << batch << " on " << slow << ", " << faster;
    }
}

// What is fixed stays so, and equal devices have equal parts.
TEST(Shares, AreOnlyForUnlikeDevices) {
  ModelGraph model("mlp", {{"layers", 2}, {"inputs", 256}, {"hidden", 256}, {"classes", 64}, {"batch", 64}});
  SearchRequest request;
  EXPECT_TRUE(findShares(model.graph, machineOf(1, 2), request));
  SearchRequest fixed;
  fixed.degrees.data = 2;
  EXPECT_FALSE(findShares(model.graph, machineOf(1, 2), fixed));
  Machine equal = machineOf(2, 2);
  for (DeviceSpec &device : equal.devices)
    device.kind = "slow";
  EXPECT_FALSE(findShares(model.graph, equal, request));
}

} // namespace
