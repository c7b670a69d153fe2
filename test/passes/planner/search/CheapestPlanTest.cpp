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

// Of one entry with three hosts and one with one: every number of hosts, and of a host alone every number of its
// devices.
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

std::string hostsOf(unsigned count, double memoryMiB = 16384, unsigned entries = 1) {
  std::string text = "device_kinds: { slow: { memory: " + std::to_string(memoryMiB) +
                     " MiB, bandwidth: 200 GB/s, peak: { f32: 4 TFLOP/s }, price: 1 USD/h } }\nhosts:\n";
  for (unsigned entry = 0; entry != entries; ++entry)
    text += "  - { count: " + std::to_string(count) + ", devices: [ { kind: slow, count: 1 } ] }\n";
  return text + "network: { bandwidth: 5 GB/s, latency: 10 us }\n";
}

/// Seconds and price of the fastest plan on each of the first 1, 2, … hosts of an entry, one after the other.
std::vector<std::pair<double, double>> onFirstHosts(const SearchGraph &graph, unsigned most, int64_t batch) {
  std::vector<std::pair<double, double>> known;
  for (unsigned count = 1; count <= most; ++count) {
    Machine machine = machineIn(hostsOf(count));
    SearchRequest own = requestOf(batch);
    own.leastCost = own.considersOthers = own.certifies = false;
    auto found = findPlan(graph, machine, own);
    auto *plan = std::get_if<FoundPlan>(&found);
    known.push_back(plan ? std::pair(plan->seconds, priceOf(pricePerHour(machine, devicesOf(*plan)), plan->seconds))
                         : std::pair(std::numeric_limits<double>::infinity(), 0.0));
  }
  return known;
}

/// The cheapest of them within a time, of numbers of hosts for which `counts` is true.
double cheapestOf(llvm::ArrayRef<std::pair<double, double>> known, double limit,
                  llvm::function_ref<bool(unsigned)> counts) {
  double least = std::numeric_limits<double>::infinity();
  for (auto [index, each] : llvm::enumerate(known))
    if (each.first <= limit && counts(index + 1))
      least = std::min(least, each.second);
  return least;
}

double priceWithin(const SearchGraph &graph, const Machine &machine, double limit, int64_t batch) {
  SearchRequest request = requestOf(batch);
  request.mostSeconds = limit;
  auto found = findPlan(graph, machine, request);
  auto *plan = std::get_if<FoundPlan>(&found);
  return plan ? priceOf(pricePerHour(machine, devicesOf(*plan)), plan->seconds)
              : std::numeric_limits<double>::infinity();
}

// Few hosts: whichever number of them the time asks for, the cheapest that is fast enough is taken.
TEST(CheapestPlan, TakesAnyNumberOfHosts) {
  ModelGraph model("mlp", {{"layers", 3}, {"inputs", 512}, {"hidden", 1024}, {"classes", 16}, {"batch", 2}});
  Machine machine = machineIn(hostsOf(5));
  auto known = onFirstHosts(model.graph, 5, 3840);
  unsigned betterThanPowers = 0;
  for (auto [seconds, price] : known) {
    double limit = seconds * (1 + 1e-6), expected = cheapestOf(known, limit, [](unsigned) { return true; });
    EXPECT_NEAR(priceWithin(model.graph, machine, limit, 3840), expected, 1e-6 * expected);
    betterThanPowers += expected < cheapestOf(known, limit, [](unsigned count) { return count != 3; });
  }
  EXPECT_GT(betterThanPowers, 0u) << "no time asks for three hosts: the test shows nothing";
}

// Many: what is found is hardly dearer than the best number of hosts, and where that is no power of two, cheaper than
// those.
TEST(CheapestPlan, ComesNearTheBestNumberOfManyHosts) {
  ModelGraph model("mlp", {{"layers", 3}, {"inputs", 512}, {"hidden", 1024}, {"classes", 16}, {"batch", 2}});
  constexpr unsigned most = 66;
  Machine machine = machineIn(hostsOf(most));
  auto known = onFirstHosts(model.graph, most, 5040);
  unsigned better = 0;
  for (unsigned count : {11u, 40u}) {
    double limit = known[count - 1].first * (1 + 1e-6);
    double expected = cheapestOf(known, limit, [](unsigned) { return true; });
    double inPowers = cheapestOf(known, limit, [](unsigned some) { return some == most || (some & (some - 1)) == 0; });
    double found = priceWithin(model.graph, machine, limit, 5040);
    EXPECT_LE(found, 1.02 * expected) << count;
    EXPECT_LE(found, inPowers) << count;
    better += found < inPowers;
  }
  EXPECT_GT(better, 0u);
}

// More sets than are searched, of which no cheap one has the memory: all devices are tried.
TEST(CheapestPlan, TriesAllDevicesWhereFewDoNotFit) {
  ModelGraph model("mlp", {{"layers", 30}, {"inputs", 512}, {"hidden", 1024}, {"classes", 16}, {"batch", 2}});
  // Parameters and their gradients of 30 layers are 240 MiB; four hosts of one entry have 96 MiB.
  Machine machine = machineIn(hostsOf(4, 24, 5));
  ASSERT_GT(partsOf(machine).size(), 64u);
  EXPECT_TRUE(std::isfinite(priceWithin(model.graph, machine, std::numeric_limits<double>::infinity(), 20)));
}

} // namespace
