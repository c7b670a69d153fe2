// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulator's collectives over zones take what the search's formulas say, as both ask one topology.

#include "passes/cost/MachineFile.h"
#include "passes/cost/PlanCost.h"

#include "runtime/simulator/GroupTraffic.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace cleave;
using Kind = runtime::GroupWork::Kind;

namespace {

/// Seconds of one group's communication while nothing else is under way.
double simulated(const PlanCost &cost, Kind kind, double bytes, const std::vector<uint32_t> &group) {
  auto phases = runtime::groupPhases(cost, kind, bytes, {group});
  double seconds = 0;
  for (const runtime::TrafficPhase &phase : phases.front()) {
    double moving = phase.seconds;
    for (const runtime::LinkLoad &load : phase.loads)
      moving = std::max(moving, load.bytes / cost.bandwidths()[load.link]);
    seconds += phase.latency + moving;
  }
  return seconds;
}

class ZoneTraffic : public testing::TestWithParam<std::tuple<const char *, unsigned, const char *>> {};

TEST_P(ZoneTraffic, SearchAndSimulatorAgree) {
  auto [links, perHost, inHost] = GetParam();
  std::string hosts;
  for (const char *zone : {"east", "west"})
    hosts += "  - { count: 3, zone: " + std::string(zone) +
             ", devices: [ { kind: gpu, count: " + std::to_string(perHost) +
             " } ], links: [ { between: devices, bandwidth: " + inHost + ", latency: 4 us } ] }\n";
  auto machine = parseMachineFile("device_kinds: { gpu: { bandwidth: 800 GB/s } }\nhosts:\n" + hosts +
                                      "network: { bandwidth: 2 GB/s, latency: 20 us }\nlinks: " + links,
                                  "test.yaml");
  ASSERT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  Topology topology(*machine);
  PlanCost cost(*machine);
  std::vector<unsigned> devices(machine->devices.size());
  std::iota(devices.begin(), devices.end(), 0u);
  std::vector<uint32_t> group(devices.begin(), devices.end());
  auto levels = topology.levels(devices, {static_cast<int64_t>(devices.size())}, {0});
  ASSERT_EQ(levels.size(), perHost == 1 ? 2u : 3u);
  for (double bytes : {1e3, 1e6, 1e9}) {
    EXPECT_NEAR(simulated(cost, Kind::AllReduce, bytes, group) / allReduceSeconds(bytes, levels), 1, 1e-9) << bytes;
    EXPECT_NEAR(simulated(cost, Kind::AllGather, bytes, group) / allGatherSeconds(bytes, levels), 1, 1e-9) << bytes;
    EXPECT_NEAR(simulated(cost, Kind::ReduceScatter, bytes, group) / reduceScatterSeconds(bytes, levels), 1, 1e-9)
        << bytes;
  }
  // From one device to another.
  unsigned last = devices.size() - 1;
  runtime::Way way;
  cost.findWay(0, last, 1, way);
  EXPECT_EQ(way.bandwidth, topology.between(0, last).bandwidth);
  EXPECT_EQ(way.latency, topology.between(0, last).latency);
}

INSTANTIATE_TEST_SUITE_P(
    Links, ZoneTraffic,
    testing::Combine(
        testing::Values("[ { between: [east, west], bandwidth: 0.115 GB/s, latency: 5 ms } ]",
                        "[ { between: [east, west], bandwidth: 0.115 GB/s, latency: 5 ms, shared: true } ]",
                        "[ { between: [east, west], bandwidth: 0.115 GB/s, latency: 10 us, shared: true } ]",
                        "[ { between: [east, west], bandwidth: 1 GB/s, latency: 1 ms, shared: true }, "
                        "{ from: west, to: east, bandwidth: 0.2 GB/s, latency: 3 ms } ]"),
        testing::Values(1u, 2u), testing::Values("1 GB/s", "100 GB/s")));

// With several devices a host the simulator also tries hosts and then all of them, and the search trees between hosts.
INSTANTIATE_TEST_SUITE_P(
    SharedInside, ZoneTraffic,
    testing::Combine(testing::Values("[ { between: [east, east], bandwidth: 1 GB/s, latency: 1 ms, shared: true }, "
                                     "{ between: [east, west], bandwidth: 0.5 GB/s, latency: 1 ms } ]"),
                     testing::Values(1u), testing::Values("1 GB/s", "100 GB/s")));

} // namespace
