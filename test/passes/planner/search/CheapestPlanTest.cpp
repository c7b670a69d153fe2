// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans that cost least, against the best of all sets of devices.

#include "ModelGraph.h"

#include "passes/cost/MachineFile.h"
#include "passes/cost/Price.h"
#include "passes/planner/search/CheapestPlan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace cleave;
using namespace cleave::search;

namespace {

Machine machineIn(llvm::StringRef text) {
  auto machine = parseMachineFile(text, "test.yaml");
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  return std::move(*machine);
}

std::string twoKinds(double fastPrice, double slowPrice, double hostPrice, unsigned slowHosts) {
  auto text = [](double value) { return std::to_string(value); };
  return "device_kinds:\n"
         "  fast: { memory: 16 GiB, bandwidth: 800 GB/s, peak: { f32: 16 TFLOP/s }, price: " +
         text(fastPrice) +
         " USD/h }\n"
         "  slow: { memory: 16 GiB, bandwidth: 200 GB/s, peak: { f32: 4 TFLOP/s }, price: " +
         text(slowPrice) +
         " USD/h }\n"
         "hosts:\n"
         "  - { price: " +
         text(hostPrice) +
         " USD/h, devices: [ { kind: fast, count: 2 } ], links: [ { between: devices, bandwidth: 50 GB/s, latency: 2 "
         "us } "
         "] }\n"
         "  - { count: " +
         std::to_string(slowHosts) + ", price: " + text(hostPrice) +
         " USD/h, devices: [ { kind: slow, count: 2 } ], links: [ { between: devices, bandwidth: 50 GB/s, latency: 2 "
         "us } "
         "] }\n"
         "network: { bandwidth: 5 GB/s, latency: 10 us }\n";
}

std::vector<unsigned> devicesOf(const FoundPlan &plan) {
  std::vector<unsigned> devices;
  for (const FoundStage &stage : plan.stages)
    devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
  return devices;
}

SearchRequest requestOf(int64_t batch) {
  SearchRequest request;
  request.training = true;
  request.batch = batch;
  request.leastCost = true;
  return request;
}

// Of one entry with three hosts and one with one: every number of hosts up to two and all, and of a host alone each
// power of two of its devices.
TEST(CheapestPlan, PartsOfAMachine) {
  std::vector<std::string> names;
  for (const PartOfMachine &part : partsOf(machineIn(twoKinds(4, 1, 0, 3)))) {
    names.push_back(part.name);
    EXPECT_EQ(part.machine.devices.size(), part.devices.size());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"1 slow", "2 slow", "1 fast", "2 x 2 slow", "3 x 2 slow", "2 fast",
                                             "2 fast + 2 slow", "2 fast + 2 x 2 slow", "2 fast + 3 x 2 slow"}));
}

// Devices keep their numbers, links only those between zones that are left.
TEST(CheapestPlan, PartsKeepNumbersAndZones) {
  Machine machine = machineIn("device_kinds: { a: { price: 1 USD/h }, b: { price: 5 USD/h } }\n"
                              "hosts:\n"
                              "  - { zone: near, devices: [ { kind: b, count: 2 } ] }\n"
                              "  - { zone: far, devices: [ { kind: a, count: 2 } ] }\n"
                              "links: [ { between: [near, far], bandwidth: 1 GB/s, latency: 1 ms } ]\n");
  std::vector<PartOfMachine> parts = partsOf(machine);
  EXPECT_EQ(parts[1].name, "2 a");
  EXPECT_EQ(parts[1].devices, (std::vector<unsigned>{2, 3}));
  EXPECT_EQ(parts[1].machine.devices.front().name, "a.2");
  EXPECT_TRUE(parts[1].machine.links.empty());
  EXPECT_EQ(parts.back().machine.links.size(), 1u);
}

// The plan costs no more than the fastest plan on any set of devices, and no plan within the limit is left out.
TEST(CheapestPlan, CostsNoMoreThanAnySet) {
  ModelGraph model("mlp", {{"layers", 3}, {"inputs", 512}, {"hidden", 1024}, {"classes", 16}, {"batch", 2}});
  std::mt19937 random(7);
  std::uniform_real_distribution<double> price(0.2, 6);
  for (unsigned trial = 0; trial != 6; ++trial) {
    Machine machine = machineIn(twoKinds(price(random), price(random), trial % 2 ? price(random) : 0, 2));
    SearchRequest request = requestOf(256);
    double least = std::numeric_limits<double>::infinity(), fastest = least;
    std::vector<std::pair<double, double>> known; // seconds, price
    for (const PartOfMachine &part : partsOf(machine)) {
      SearchRequest own = requestOf(256);
      own.leastCost = own.considersOthers = own.certifies = false;
      auto found = findPlan(model.graph, part.machine, own);
      auto *plan = std::get_if<FoundPlan>(&found);
      if (!plan)
        continue;
      std::vector<unsigned> devices;
      for (unsigned device : devicesOf(*plan))
        devices.push_back(part.devices[device]);
      known.push_back({plan->seconds, priceOf(pricePerHour(machine, devices), plan->seconds)});
      least = std::min(least, known.back().second);
      fastest = std::min(fastest, plan->seconds);
    }
    for (double limit : {std::numeric_limits<double>::infinity(), 1.5 * fastest, fastest}) {
      request.mostSeconds = limit;
      double expected = std::numeric_limits<double>::infinity();
      for (auto [seconds, cost] : known)
        if (seconds <= limit)
          expected = std::min(expected, cost);
      auto found = findPlan(model.graph, machine, request);
      auto *plan = std::get_if<FoundPlan>(&found);
      ASSERT_TRUE(plan) << "trial " << trial << ", at most " << limit;
      EXPECT_LE(plan->seconds, limit);
      EXPECT_NEAR(priceOf(pricePerHour(machine, devicesOf(*plan)), plan->seconds), expected, 1e-9 * expected)
          << "trial " << trial << ", at most " << limit;
    }
    request.mostSeconds = 0.5 * fastest;
    auto none = findPlan(model.graph, machine, request);
    EXPECT_TRUE(std::holds_alternative<SearchFailure>(none));
  }
}

} // namespace
