// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What devices of a host leave each other, by counting; and that the simulator is told the same.

#include "passes/cost/HostSharing.h"
#include "passes/cost/MachineFile.h"
#include "passes/cost/OperatorCost.h"
#include "passes/cost/PlanCost.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace cleave;

namespace {

Machine described(llvm::StringRef text) {
  auto machine = parseMachineFile(text, "test.yaml");
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError()) << text.str();
  return machine ? std::move(*machine) : Machine();
}

/// A host of so many cores (0: unsaid), with devices of so many cores each.
Machine hostOf(unsigned cores, unsigned devices, unsigned coresEach) {
  std::string own = cores ? "cores: " + std::to_string(cores) + ", " : "";
  return described("device_kinds: { part: { bandwidth: 10 GB/s, peak: { f32: 80 GFLOP/s }, launch: 2 us, cores: " +
                   std::to_string(coresEach) + " } }\nhosts: [ { " + own +
                   "devices: [ { kind: part, count: " + std::to_string(devices) + " } ] } ]");
}

// Threads over cores, where there are more of them; nothing where a host does not say what its devices share.
TEST(HostSharing, DividesCores) {
  Machine four = hostOf(2, 4, 1);
  HostSharing sharing(four);
  EXPECT_EQ(sharing.slowdown({3}, {3}), 1);
  EXPECT_EQ(sharing.slowdown({0, 1}, {0, 1}), 1);
  EXPECT_EQ(sharing.slowdown({0, 1}, {0, 1, 2}), 1.5);
  EXPECT_EQ(sharing.slowdown({2}, {0, 1, 2, 3}), 2);
  Machine wide = hostOf(2, 2, 2);
  EXPECT_EQ(HostSharing(wide).slowdown({0}, {0}), 1);
  EXPECT_EQ(HostSharing(wide).slowdown({0}, {0, 1}), 2);
  Machine unsaid = hostOf(0, 4, 1);
  EXPECT_EQ(HostSharing(unsaid).slowdown({0}, {0, 1, 2, 3}), 1);
}

// A device of more cores than its host has takes them all, and is no slower for that while it is alone.
TEST(HostSharing, CountsNoMoreThreadsThanCores) {
  Machine machine = hostOf(2, 3, 8);
  HostSharing sharing(machine);
  EXPECT_EQ(sharing.threads(0), 2);
  EXPECT_EQ(sharing.slowdown({0}, {0}), 1);
  EXPECT_EQ(sharing.slowdown({0}, {0, 1, 2}), 3);
}

/// Two hosts of two cores, each with a GPU by its chip, one by its driver, and three devices of a core.
const char *const mixed = R"(
device_kinds:
  known: { chip: sm_70 }
  gpu: { driver: cuda }
  part: { driver: cpu }
hosts:
  - { count: 2, cores: 2, devices: [ { kind: known }, { kind: gpu }, { kind: part, count: 3 } ] }
)";

// GPUs take no cores and miss none; a host's devices do not mind another host's.
TEST(HostSharing, LeavesGpusAndOtherHostsAlone) {
  Machine machine = described(mixed);
  HostSharing sharing(machine);
  EXPECT_EQ(sharing.slowdown({0, 1}, {0, 1, 2, 3, 4}), 1);
  EXPECT_EQ(sharing.slowdown({2}, {0, 1, 2, 3}), 1);
  EXPECT_EQ(sharing.slowdown({2}, {0, 1, 2, 3, 4}), 1.5);
  EXPECT_EQ(sharing.slowdown({2}, {2, 3, 7, 8, 9}), 1);
  EXPECT_EQ(sharing.slowdown({2, 9}, {2, 7, 8, 9}), 1.5);
}

// In the order of the machine, as many a host as have cores; what is taken counts first, even where it is too much.
TEST(HostSharing, FindsDevicesWithCores) {
  Machine machine = described(mixed);
  HostSharing sharing(machine);
  EXPECT_EQ(sharing.devicesWithCores(), (std::vector<unsigned>{0, 1, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(sharing.devicesWithCores({4, 7, 8, 9}), (std::vector<unsigned>{0, 1, 2, 4, 5, 6, 7, 8, 9}));
  Machine unsaid = hostOf(0, 3, 5);
  EXPECT_EQ(HostSharing(unsaid).devicesWithCores(), (std::vector<unsigned>{0, 1, 2}));
}

// Each neighbour that computes adds its part, on top of what sharing cores costs.
TEST(HostSharing, CountsNeighbours) {
  Machine machine = described("device_kinds: { part: { neighbour_slowdown: 1.25 } }\n"
                              "hosts: [ { cores: 2, devices: [ { kind: part, count: 4 } ] } ]");
  HostSharing sharing(machine);
  EXPECT_EQ(sharing.slowdown({0}, {0}), 1);
  EXPECT_EQ(sharing.slowdown({0}, {0, 1}), 1.25);
  EXPECT_EQ(sharing.slowdown({0}, {0, 1, 2, 3}), 2 * 1.75);
  EXPECT_EQ(PlanCost(machine).contention(0, {}), 1.25);
}

// The simulator shares the same cores among the same threads; hosts with other cores are not alike.
TEST(HostSharing, TellsTheSimulator) {
  Machine machine = described("device_kinds: { part: { cores: 3 }, gpu: { chip: sm_90 } }\n"
                              "hosts: [ { cores: 2, devices: [ { kind: part }, { kind: gpu } ] },\n"
                              "         { cores: 4, devices: [ { kind: part } ] }, { devices: [ { kind: part } ] } ]");
  PlanCost cost(machine);
  EXPECT_EQ(cost.coresOf(0), 2);
  EXPECT_EQ(cost.coresOf(1), 4);
  EXPECT_TRUE(std::isinf(cost.coresOf(2)));
  EXPECT_EQ(cost.threadsOf(0, 3), 2);
  EXPECT_EQ(cost.threadsOf(1, 1), 0);
  EXPECT_EQ(cost.threadsOf(2, 3), 3);
  EXPECT_NE(cost.kindOf(0), cost.kindOf(2));
  EXPECT_NE(cost.kindOf(2), cost.kindOf(3));
}

// A slower device takes so many times as long for everything, launches too.
TEST(HostSharing, SlowsOperatorsDown) {
  Machine machine = hostOf(2, 4, 1);
  DeviceKind kind = deviceKindOf(machine, 0);
  OperatorCost alone(kind, "f32"), busy(kind, "f32", 2);
  for (auto [flops, bytes] : {std::pair(1e9, 1e3), std::pair(1e3, 1e8), std::pair(0.0, 0.0)})
    for (CostClass costClass : {CostClass::Contraction, CostClass::Elementwise})
      EXPECT_DOUBLE_EQ(busy.seconds(costClass, flops, bytes), 2 * alone.seconds(costClass, flops, bytes));
  EXPECT_DOUBLE_EQ(busy.memorySeconds(1e6), 2 * alone.memorySeconds(1e6));
  EXPECT_DOUBLE_EQ(busy.peakFlops(), alone.peakFlops() / 2);
}

} // namespace
