// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machines of several kinds of devices: no plan that divides the batch, the layers' weights or the layers evenly over
// all devices is better than the one that is found.

#include "ModelGraph.h"

#include "passes/cost/MachineFile.h"
#include "passes/planner/search/Search.h"

#include <gtest/gtest.h>

#include <random>

using namespace cleave;
using namespace cleave::search;

namespace {

Machine readMachine(const std::string &text) {
  auto machine = parseMachineFile(text, "test.yaml");
  if (!machine)
    throw std::runtime_error(llvm::toString(machine.takeError()));
  return std::move(*machine);
}

/// Two to four kinds that differ up to eight times in speed, on hosts of one to four devices.
std::string randomMachine(unsigned seed) {
  std::mt19937 random(seed);
  auto oneOf = [&](std::vector<double> values) { return values[random() % values.size()]; };
  unsigned numKinds = 2 + random() % 3;
  std::string kinds = "device_kinds:\n", hosts = "hosts:\n";
  for (unsigned kind = 0; kind != numKinds; ++kind) {
    double speed = oneOf({1, 1.5, 2, 4, 8});
    std::string name = "k" + std::to_string(kind);
    kinds += "  " + name + ": { memory: 16 GiB, bandwidth: " + std::to_string(100 * speed * oneOf({0.7, 1, 1.4})) +
             " GB/s, peak: { f32: " + std::to_string(2 * speed) + " TFLOP/s }, launch: 4 us }\n";
    hosts += "  - { devices: [ { kind: " + name + ", count: " + std::to_string(1 + random() % 4) +
             " } ], links: [ { between: devices, bandwidth: " + std::to_string(oneOf({6, 50, 200})) +
             " GB/s, latency: 5 us } ] }\n";
  }
  return kinds + hosts + "network: { bandwidth: " + std::to_string(oneOf({10, 100})) + " Gb/s, latency: 20 us }\n";
}

class MixedMachines : public testing::TestWithParam<unsigned> {};

TEST_P(MixedMachines, AreUsedNoWorseThanEvenly) {
  Machine machine = readMachine(randomMachine(GetParam()));
  auto count = static_cast<int64_t>(machine.devices.size());
  bool isDecoder = GetParam() % 2;
  ModelGraph model =
      isDecoder
          ? ModelGraph(
                "gpt",
                {{"layers", 3}, {"hidden", 512}, {"heads", 8}, {"sequence", 64}, {"vocabulary", 512}, {"batch", 32}})
          : ModelGraph("mlp", {{"layers", 4}, {"inputs", 512}, {"hidden", 2048}, {"classes", 64}, {"batch", 64}});
  for (bool training : {false, true}) {
    SearchRequest request;
    request.training = training;
    request.considersOthers = false;
    auto found = findPlan(model.graph, machine, request);
    ASSERT_TRUE(std::holds_alternative<FoundPlan>(found)) << std::get<SearchFailure>(found).message;
    const auto &best = std::get<FoundPlan>(found);
    EXPECT_GE(best.seconds, best.lowerBound * (1 - 1e-9));
    unsigned plans = 0;
    for (std::optional<int64_t> Degrees::*axis : {&Degrees::data, &Degrees::model, &Degrees::pipeline}) {
      SearchRequest fixed = request;
      fixed.degrees.*axis = count;
      auto other = findPlan(model.graph, machine, fixed);
      if (auto *plan = std::get_if<FoundPlan>(&other)) {
        ++plans;
        EXPECT_LE(best.seconds, plan->seconds * (1 + 1e-9)) << (training ? "training" : "inference") << " on " << count;
      }
    }
    EXPECT_GE(plans, 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(Random, MixedMachines, testing::Range(0u, 20u));

// Two slow devices beside a fast one that is three times as fast: for the batch over all three each takes as long as a
// slow one does with a third, which is less than the fast one takes with all of it only where they are nearly alike.
TEST(MixedMachines, LeaveSlowDevicesIdleWhereTheyWouldHoldUpTheRest) {
  ModelGraph model("mlp", {{"layers", 4}, {"inputs", 1024}, {"hidden", 4096}, {"classes", 64}, {"batch", 96}});
  auto devicesOn = [&](double slower) {
    Machine machine =
        readMachine("device_kinds:\n"
                    "  fast: { memory: 16 GiB, bandwidth: 800 GB/s, peak: { f32: 16 TFLOP/s }, launch: 4 us }\n"
                    "  slow: { memory: 16 GiB, bandwidth: " +
                    std::to_string(800 / slower) + " GB/s, peak: { f32: " + std::to_string(16 / slower) +
                    " TFLOP/s }, launch: 4 us }\n"
                    "hosts:\n  - { devices: [ { kind: slow, count: 2 }, { kind: fast, count: 1 } ], links: [ { "
                    "between: devices, bandwidth: 200 GB/s, latency: 5 us } ] }\n");
    SearchRequest request;
    request.considersOthers = false;
    auto found = findPlan(model.graph, machine, request);
    unsigned devices = 0;
    for (const FoundStage &stage : std::get<FoundPlan>(found).stages)
      devices += stage.devices.size();
    return devices;
  };
  EXPECT_EQ(devicesOn(1.2), 3u);
  EXPECT_EQ(devicesOn(8), 1u);
}

} // namespace
