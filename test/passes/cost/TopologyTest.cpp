// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Paths and shared links against values found by hand.

#include "passes/cost/Topology.h"

#include "passes/cost/MachineFile.h"
#include "passes/cost/Presets.h"

#include <chrono>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace cleave;

namespace {

constexpr double us = 1e-6;

Machine machineIn(llvm::StringRef text) {
  auto machine = parseMachineFile(text, "test.yaml");
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  return std::move(*machine);
}

std::vector<unsigned> devices(unsigned count, unsigned first = 0) {
  std::vector<unsigned> result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

void expectLink(const LinkSpec &link, double bandwidth, double latency) {
  EXPECT_NEAR(link.bandwidth, bandwidth, bandwidth * 1e-9);
  EXPECT_NEAR(link.latency, latency, 1e-12);
}

constexpr llvm::StringLiteral kinds = R"(
device_kinds: { gpu: { bandwidth: 800 GB/s } }
)";

Machine twoHosts(llvm::StringRef network = "network: { bandwidth: 2 GB/s, latency: 20 us }") {
  return machineIn((kinds + R"(
hosts:
  - { count: 2, devices: [ { kind: gpu, count: 8 } ],
      links: [ { between: devices, bandwidth: 100 GB/s, latency: 4 us } ] }
)" + network)
                       .str());
}

// The slowest to combine on the way counts; links that do not say are fast enough.
TEST(TopologyTest, Combining) {
  Topology topology(machineIn((kinds + R"(
hosts:
  - { count: 2, devices: [ { kind: gpu, count: 2 } ],
      links: [ { between: devices, bandwidth: 100 GB/s, latency: 4 us, combine: 7 GB/s } ] }
network: { bandwidth: 2 GB/s, latency: 20 us }
)")
                                  .str()));
  EXPECT_EQ(topology.between(0, 1).combine, 7e9);
  EXPECT_EQ(topology.along(devices(4), {4}, {0}).combine, 7e9);
  EXPECT_EQ(topology.levels(devices(4), {4}, {0})[1].link.combine, 7e9);
}

// A path has the bandwidth of its narrowest link and the latency of all.
TEST(TopologyTest, Between) {
  Topology topology(twoHosts());
  expectLink(topology.between(0, 7), 100e9, 4 * us);
  expectLink(topology.between(3, 12), 2e9, 24 * us);
  // A copy on a device reads and writes its memory.
  expectLink(topology.between(5, 5), 400e9, 0);
}

// One ring over both hosts crosses the network once in each direction; eight rings share it.
TEST(TopologyTest, RingsShareTheNetwork) {
  Topology topology(twoHosts());
  expectLink(topology.along(devices(16), {16}, {0}), 2e9, 24 * us);
  expectLink(topology.along(devices(16), {2, 8}, {0}), 2e9 / 8, 24 * us);
  expectLink(topology.along(devices(16), {2, 8}, {1}), 100e9, 4 * us);
  // Two rings of eight over both hosts.
  expectLink(topology.along(devices(16), {2, 4, 2}, {0, 1}), 1e9, 24 * us);
}

// Devices in another order than that of the hosts: rings go host by host all the same.
TEST(TopologyTest, OrderOfDevices) {
  Topology topology(twoHosts());
  std::vector<unsigned> mixed;
  for (unsigned i = 0; i < 8; ++i)
    mixed.insert(mixed.end(), {i, i + 8});
  expectLink(topology.along(mixed, {16}, {0}), 2e9, 24 * us);
  expectLink(topology.along(mixed, {8, 2}, {1}), 2e9 / 8, 24 * us);
}

// A transfer takes one port; a ring is as many rings as there are ports, each leaving from another device.
TEST(TopologyTest, Ports) {
  Topology topology(twoHosts("network: { bandwidth: 2 GB/s, latency: 20 us, ports: 4 }"));
  expectLink(topology.between(0, 8), 2e9, 24 * us);
  expectLink(topology.along(devices(16), {16}, {0}), 8e9, 24 * us);
  expectLink(topology.along(devices(16), {2, 8}, {0}), 1e9, 24 * us);
  // Two devices of each host have two ports.
  expectLink(topology.along({0, 1, 8, 9}, {4}, {0}), 4e9, 24 * us);
}

// Devices, switches, hosts as levels; each with all devices sending at once.
TEST(TopologyTest, Levels) {
  Topology topology(twoHosts());
  auto levels = topology.levels(devices(16), {16}, {0});
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].ways, 8);
  expectLink(levels[0].link, 100e9, 4 * us);
  EXPECT_EQ(levels[1].ways, 2);
  expectLink(levels[1].link, 2e9 / 8, 24 * us);
  // The ring over the levels is the ring over the devices.
  expectLink(ringLink(levels), 2e9, 24 * us);
  EXPECT_EQ(topology.levels(devices(16), {2, 8}, {1}).size(), 1u);
  EXPECT_EQ(topology.levels(devices(16), {2, 8}, {0}).size(), 1u);
  EXPECT_TRUE(topology.levels(devices(1), {1}, {0}).empty());
  // Three devices here and one there are no hierarchy.
  EXPECT_EQ(topology.levels({5, 6, 7, 8}, {4}, {0}).size(), 1u);
}

constexpr llvm::StringLiteral switches = R"(
hosts:
  - { devices: [ { kind: gpu, count: 8 } ],
      switches: [ { count: 2, devices: 4, bandwidth: 6 GB/s, latency: 5 us, up: { bandwidth: 12 GB/s, latency: 10 us } } ] }
)";

// Within a switch all exchange at the full rate; what leaves it shares the way to the host (Krizhevsky 2014: half the
// rate when all four do).
TEST(TopologyTest, Switches) {
  Topology topology(machineIn((kinds + switches).str()));
  expectLink(topology.between(0, 3), 6e9, 10 * us);
  expectLink(topology.between(0, 4), 6e9, 30 * us);
  expectLink(topology.along(devices(8), {2, 4}, {1}), 6e9, 10 * us);
  expectLink(topology.along(devices(8), {2, 4}, {0}), 3e9, 30 * us);
  expectLink(topology.along(devices(8), {8}, {0}), 6e9, 30 * us);
  expectLink(topology.across(devices(4), devices(4, 4)), 3e9, 30 * us);
  auto levels = topology.levels(devices(8), {8}, {0});
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].ways, 4);
  expectLink(levels[0].link, 6e9, 10 * us);
  expectLink(levels[1].link, 3e9, 30 * us);
}

// Of equally wide paths the one of less latency: the common switch, not the way over the host.
TEST(TopologyTest, ShortestOfTheWidest) {
  Topology topology(machineIn((kinds + R"(
hosts:
  - { devices: [ { kind: gpu, count: 4 } ],
      links: [ { between: devices, bandwidth: 6 GB/s, latency: 3 us } ],
      switches: [ { count: 2, devices: 2, bandwidth: 6 GB/s, latency: 1 us } ] }
)")
                                  .str()));
  expectLink(topology.between(0, 1), 6e9, 2 * us);
  expectLink(topology.between(0, 2), 6e9, 3 * us);
}

// To another host over the switches, whose ways up count, too.
TEST(TopologyTest, OverSwitchesToTheNetwork) {
  Topology topology(machineIn((kinds + R"(
hosts:
  - { count: 2, devices: [ { kind: gpu, count: 4 } ],
      switches: [ { count: 2, devices: 2, bandwidth: 6 GB/s, latency: 1 us, up: { bandwidth: 3 GB/s, latency: 1 us } } ] }
network: { bandwidth: 1 GB/s, latency: 10 us }
)")
                                  .str()));
  expectLink(topology.between(0, 4), 1e9, 14 * us);
  expectLink(topology.along(devices(8), {2, 4}, {0}), 0.25e9, 14 * us);
}

// NVIDIA's hybrid cube mesh: direct links where there are some; over the hosts' switches else, never over a device.
TEST(TopologyTest, Pairs) {
  auto machine = parsePreset("v100-16g");
  ASSERT_TRUE(bool(machine));
  Topology topology(*machine);
  expectLink(topology.between(0, 3), 44e9, 3 * us);
  expectLink(topology.between(0, 1), 22e9, 3 * us);
  expectLink(topology.between(0, 5), 12e9, 16 * us);
  // Six links a device; four of them to the others of a quad.
  expectLink(topology.along(devices(8), {8}, {0}), 132e9, 3 * us);
  expectLink(topology.along(devices(8), {2, 4}, {1}), 88e9, 3 * us);
  expectLink(topology.along(devices(8), {2, 4}, {0}), 22e9, 3 * us);
  EXPECT_EQ(topology.levels(devices(8), {8}, {0}).size(), 1u);
}

// A mesh to its successor: counterparts, all at once.
// Where nothing but links of two connects devices, two that have one use it, however fast their memory is; two that
// have none go over the host.
TEST(TopologyTest, PairsAlone) {
  Topology topology(machineIn((kinds + R"(
hosts:
  - devices: [ { kind: gpu, count: 3 } ]
    links:
      - { between: [0, 1], bandwidth: 50 GB/s, latency: 3 us, start: 20 us }
      - { between: [1, 2], bandwidth: 50 GB/s, latency: 3 us }
)")
                                  .str()));
  expectLink(topology.between(0, 1), 50e9, 3 * us);
  expectLink(topology.between(0, 2), 400e9, 5 * us);
  LinkSpec ring = topology.along(devices(2), {2}, {0});
  expectLink(ring, 50e9, 3 * us);
  EXPECT_NEAR(ring.start, 20 * us, 1e-12);
  expectLink(topology.along(devices(3), {3}, {0}), 50e9, 3 * us);
  EXPECT_EQ(topology.way(0, 1).parts.size(), 0u);
}

// All-reduces of 4 GiB over four GH200 take 19.0 ms (Strati et al., Sailor, SOSP 2025, artifact).
TEST(TopologyTest, FourOfThePreset) {
  auto machine = parseMachine("gh200:4");
  ASSERT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  LinkSpec ring = Topology(*machine).along(devices(4), {4}, {0});
  EXPECT_NEAR(2 * 0.75 * 4294967296.0 / ring.bandwidth, 19.0e-3, 1e-3);
}

TEST(TopologyTest, Across) {
  Topology topology(twoHosts());
  expectLink(topology.across(devices(8), devices(8, 8)), 2e9 / 8, 24 * us);
  expectLink(topology.across(devices(4), devices(4, 4)), 100e9, 4 * us);
  // One device serves four.
  expectLink(topology.across(devices(1), devices(4, 4)), 25e9, 4 * us);
  // The same device on both sides copies.
  expectLink(topology.across({0}, {0}), 400e9, 0);
}

// Machines of which nothing is known.
TEST(TopologyTest, Unknown) {
  Machine machine;
  machine.devices.resize(4);
  Topology topology(machine);
  expectLink(topology.between(0, 1), 10e9, 5 * us);
  expectLink(topology.between(2, 2), 10e9, 0);
  Topology hosts(machineIn((kinds + "hosts: [ { count: 2, devices: [ { kind: gpu, count: 2 } ] } ]").str()));
  expectLink(hosts.between(0, 1), 400e9, 5 * us);
  expectLink(hosts.between(0, 2), 1.25e9, 55 * us);
}

// A mixture: the slower network counts.
TEST(TopologyTest, Mixture) {
  auto machine = parsePreset("v100-16g:8x2+a100-80g:8x1");
  ASSERT_TRUE(bool(machine));
  ASSERT_EQ(machine->devices.size(), 24u);
  Topology topology(*machine);
  expectLink(topology.between(0, 8), 3.125e9, (30 + 16) * us);
  expectLink(topology.between(0, 16), 3.125e9, (17.5 + 8 + 2.25) * us);
}

// The part of a machine that a question is about does not matter where its hosts are alike: the same answers, found
// once, fast enough to ask thousands of times.
TEST(TopologyTest, ManyDevices) {
  auto machine = parsePreset("a100-80g:8x2048");
  ASSERT_TRUE(bool(machine));
  auto begin = std::chrono::steady_clock::now();
  Topology topology(*machine);
  auto all = devices(16384);
  expectLink(topology.along(all, {2048, 8}, {0}), 22e9, 9.5 * us);
  expectLink(topology.along(all, {2048, 8}, {1}), 232e9, 4.5 * us);
  for (unsigned first = 0; first < 16384; first += 16) {
    auto some = devices(16, first);
    expectLink(topology.along(some, {2, 8}, {0}), 22e9, 9.5 * us);
    expectLink(topology.along(some, {16}, {0}), 8 * 22e9, 9.5 * us);
  }
  // Generous, because tests run on busy machines.
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 2);
}

//===-- links between zones -----------------------------------------------------------------------------------===//

/// Two hosts in each of two zones, `devices` to a host, 100 GB/s between these in 4 us; ports of 2 GB/s, 20 us.
Machine twoZones(unsigned devices, llvm::StringRef links) {
  std::string host = "[ { kind: gpu, count: " + std::to_string(devices) +
                     " } ], links: [ { between: devices, bandwidth: 100 GB/s, latency: 4 us } ] }\n";
  return machineIn((kinds + "hosts:\n  - { count: 2, zone: east, devices: " + host +
                    "  - { count: 2, zone: west, devices: " + host +
                    "network: { bandwidth: 2 GB/s, latency: 20 us }\n" + links)
                       .str());
}

constexpr llvm::StringLiteral wide = "links: [ { between: [east, west], bandwidth: 0.5 GB/s, latency: 30 ms } ]";
constexpr llvm::StringLiteral shared =
    "links: [ { between: [east, west], bandwidth: 0.5 GB/s, latency: 30 ms, shared: true } ]";

// What is between two zones stands in the place of the network's latency and narrows the ports; the rest stays.
TEST(TopologyTest, BetweenZones) {
  Topology topology(twoZones(2, wide));
  expectLink(topology.between(0, 4), 0.5e9, 30e-3 + 4 * us);
  expectLink(topology.between(5, 3), 0.5e9, 30e-3 + 4 * us);
  expectLink(topology.between(0, 2), 2e9, 24 * us);
  expectLink(topology.between(4, 6), 2e9, 24 * us);
  expectLink(topology.between(0, 1), 100e9, 4 * us);
  // A link wider than the ports makes no port wider.
  Topology narrow(twoZones(2, "links: [ { between: [east, west], bandwidth: 50 GB/s, latency: 1 us } ]"));
  expectLink(narrow.between(0, 4), 2e9, 5 * us);
}

// Within a zone, between its hosts.
TEST(TopologyTest, WithinAZone) {
  Topology topology(twoZones(2, "links: [ { between: [west, west], bandwidth: 1 GB/s, latency: 7 us, start: 9 us } ]"));
  expectLink(topology.between(4, 6), 1e9, 11 * us);
  EXPECT_EQ(topology.between(4, 6).start, 9 * us);
  expectLink(topology.between(4, 5), 100e9, 4 * us);
  expectLink(topology.between(0, 2), 2e9, 24 * us);
  expectLink(topology.between(0, 4), 2e9, 24 * us);
}

// A direction of its own goes before both, and leaves the other one alone.
TEST(TopologyTest, Directions) {
  Topology topology(twoZones(1, "links: [ { between: [east, west], bandwidth: 0.5 GB/s, latency: 30 ms },\n"
                                "         { from: west, to: east, bandwidth: 0.1 GB/s, latency: 90 ms } ]"));
  expectLink(topology.between(0, 2), 0.5e9, 30e-3 + 4 * us);
  expectLink(topology.between(2, 0), 0.1e9, 90e-3 + 4 * us);
  // A ring takes both directions.
  expectLink(topology.along(devices(4), {4}, {0}), 0.1e9, 90e-3 + 4 * us);
  Topology one(twoZones(1, "links: [ { from: west, to: east, bandwidth: 0.1 GB/s, latency: 90 ms } ]"));
  expectLink(one.between(0, 2), 2e9, 24 * us);
  expectLink(one.between(2, 0), 0.1e9, 90e-3 + 4 * us);
}

/// What each of the first transfers from east to west gets of four: two from each host, each to a device of its own.
double bandwidthOf(const Topology &topology, unsigned transfers) {
  std::vector<unsigned> from = {0, 2, 1, 3}, to = {4, 6, 5, 7};
  from.resize(transfers);
  to.resize(transfers);
  return topology.across(from, to).bandwidth;
}

// Each two hosts have a link of their own: the first two transfers are between other hosts than each other, the third
// one is beside the first. Shared by all, it is divided by as many as there are.
TEST(TopologyTest, TransfersAtOnce) {
  Topology own(twoZones(2, wide)), together(twoZones(2, shared));
  EXPECT_NEAR(bandwidthOf(own, 1), 0.5e9, 1);
  EXPECT_NEAR(bandwidthOf(own, 2), 0.5e9, 1);
  EXPECT_NEAR(bandwidthOf(own, 4), 0.5e9 / 2, 1);
  EXPECT_NEAR(bandwidthOf(together, 1), 0.5e9, 1);
  EXPECT_NEAR(bandwidthOf(together, 2), 0.5e9 / 2, 1);
  EXPECT_NEAR(bandwidthOf(together, 4), 0.5e9 / 4, 1);
  // The other direction is another link: what goes there takes nothing from these.
  EXPECT_NEAR(together.across({0, 4}, {4, 0}).bandwidth, 0.5e9, 1);
  // From one host to two others the port is the narrower one where the links are wide: 2 GB/s for two.
  Topology ports(twoZones(2, "links: [ { between: [east, west], bandwidth: 1.5 GB/s, latency: 30 ms } ]"));
  EXPECT_NEAR(ports.across({0, 1}, {4, 6}).bandwidth, 1e9, 1);
  // Within a zone there are no two directions to tell apart.
  Topology inside(twoZones(1, "links: [ { between: [east, east], bandwidth: 1 GB/s, latency: 1 us, shared: true } ]"));
  EXPECT_NEAR(inside.across({0, 1}, {1, 0}).bandwidth, 0.5e9, 1);
}

// Numbers of links tell who shares: device pairs of the same two hosts, or all between two zones; each direction by
// itself.
TEST(TopologyTest, NumbersOfZoneLinks) {
  auto linkOf = [](const Topology &topology, unsigned from, unsigned to) {
    std::vector<size_t> numbers;
    for (const Topology::Way::Part &part : topology.way(from, to).parts)
      if (part.bandwidth == 0.5e9)
        numbers.push_back(part.number);
    EXPECT_EQ(numbers.size(), 1u);
    EXPECT_LT(numbers.front(), topology.numLinks());
    return numbers.front();
  };
  Topology own(twoZones(2, wide)), together(twoZones(2, shared));
  EXPECT_EQ(linkOf(own, 0, 4), linkOf(own, 1, 5));
  EXPECT_NE(linkOf(own, 0, 4), linkOf(own, 0, 6));
  EXPECT_NE(linkOf(own, 0, 4), linkOf(own, 4, 0));
  EXPECT_EQ(linkOf(together, 0, 4), linkOf(together, 3, 7));
  EXPECT_NE(linkOf(together, 0, 4), linkOf(together, 4, 0));
}

// A ring over both zones crosses each direction once, shared or not. Eight devices are four counterparts a zone: of two
// hosts each, so that two share a link of two hosts, or all four what all share. One host of two devices sends two at
// once over its port.
TEST(TopologyTest, LevelsOfZones) {
  Topology own(twoZones(2, wide)), together(twoZones(2, shared));
  for (const Topology *topology : {&own, &together}) {
    expectLink(topology->along(devices(8), {8}, {0}), 0.5e9, 30e-3 + 4 * us);
    auto levels = topology->levels(devices(8), {8}, {0});
    ASSERT_EQ(levels.size(), 3u);
    EXPECT_EQ(levels[0].ways, 2);
    expectLink(levels[0].link, 100e9, 4 * us);
    EXPECT_EQ(levels[1].ways, 2);
    expectLink(levels[1].link, 1e9, 24 * us);
    EXPECT_EQ(levels[2].ways, 2);
    // One ring over all levels is the ring over the devices.
    expectLink(ringLink(levels), 0.5e9, 30e-3 + 4 * us);
    // Beside each other, one for each place in a host, two rings over the hosts have half of it.
    expectLink(ringLink(llvm::ArrayRef(levels).drop_front()), 0.25e9, 30e-3 + 4 * us);
  }
  expectLink(own.levels(devices(8), {8}, {0})[2].link, 0.25e9, 30e-3 + 4 * us);
  expectLink(together.levels(devices(8), {8}, {0})[2].link, 0.125e9, 30e-3 + 4 * us);
  // Hosts of one device have no level of their own; three hosts here and one there are no hierarchy of zones.
  Topology plain(twoZones(1, wide));
  EXPECT_EQ(plain.levels(devices(4), {4}, {0}).size(), 2u);
  EXPECT_EQ(plain.levels(devices(3), {3}, {0}).size(), 1u);
  EXPECT_EQ(plain.levels(devices(4), {2, 2}, {1}).size(), 1u);
}

// All-reduces of a GB over two zones of two hosts, by hand. Over a narrow link that all share, inside the zones first:
// (2 - 1) / 2 of the bytes each way inside, then an all-reduce of half the bytes by two at once, each with half the
// link. Where each two hosts have their own, both have it whole.
TEST(TopologyTest, AllReduceOverZones) {
  Topology own(twoZones(1, wide)), together(twoZones(1, shared));
  double latency = 30e-3 + 4 * us, inner = 24 * us, bytes = 1e9;
  auto seconds = [&](const Topology &topology) {
    return allReduceSeconds(bytes, topology.levels(devices(4), {4}, {0}));
  };
  double inside = 2 * (inner + bytes / 2 / 2e9);
  EXPECT_NEAR(seconds(together),
              std::min(6 * latency + 1.5 * bytes / 0.5e9, inside + 2 * latency + bytes / 2 / (0.5e9 / 2)), 1e-9);
  EXPECT_NEAR(seconds(own), inside + 2 * latency + bytes / 2 / 0.5e9, 1e-9);
  // The ring alone.
  EXPECT_NEAR(allReduceSeconds(bytes, {LinkLevel{4, own.along(devices(4), {4}, {0})}}),
              6 * latency + 1.5 * bytes / 0.5e9, 1e-9);
}

// Hosts that are alike but for their zone are told apart, whichever is asked first.
TEST(TopologyTest, ZonesAreToldApart) {
  Topology topology(twoZones(2, "links: [ { between: [west, west], bandwidth: 1 GB/s, latency: 7 us } ]"));
  for (unsigned turn = 0; turn != 2; ++turn) {
    expectLink(topology.along(devices(4), {2, 2}, {0}), 1e9, 24 * us);
    expectLink(topology.along(devices(4, 4), {2, 2}, {0}), 0.5e9, 11 * us);
    expectLink(topology.across(devices(2), devices(2, 2)), 1e9, 24 * us);
    expectLink(topology.across(devices(2, 4), devices(2, 6)), 0.5e9, 11 * us);
    expectLink(topology.across(devices(2, 2), devices(2, 4)), 1e9, 24 * us);
    EXPECT_EQ(topology.levels(devices(4), {4}, {0})[1].link.latency, 24 * us);
    EXPECT_EQ(topology.levels(devices(4, 4), {4}, {0})[1].link.latency, 11 * us);
  }
}

/// Hosts of random kinds, half of them with zones, but without links.
std::string randomHosts(std::mt19937 &random, bool zones) {
  auto oneOf = [&](std::vector<std::string> values) { return values[random() % values.size()]; };
  std::string hosts = "hosts:\n";
  for (unsigned entry = 0, count = 2 + random() % 3; entry != count; ++entry) {
    std::string hostCount = std::to_string(1 + random() % 3), zone = oneOf({"", "zone: a, ", "zone: b, "});
    hosts += "  - { count: " + hostCount + ", " + (zones ? zone : "") + "devices: [ { kind: gpu, count: 4 } ]" +
             oneOf({"", ", links: [ { between: devices, bandwidth: 90 GB/s, latency: 4 us } ]",
                    ", switches: [ { count: 2, devices: 2, bandwidth: 6 GB/s, latency: 5 us } ]",
                    ", links: [ { between: [0, 1], bandwidth: 50 GB/s, latency: 2 us } ]"}) +
             oneOf({"", ", network: { bandwidth: 3 GB/s, latency: 9 us, ports: 2 }"}) + " }\n";
  }
  return hosts + "network: { bandwidth: 2 GB/s, latency: 20 us }\n";
}

/// Every answer of a topology about random grids, exactly.
std::vector<double> answersOf(const Topology &topology, unsigned numDevices, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> answers;
  auto add = [&](const LinkSpec &link) {
    answers.insert(answers.end(), {link.bandwidth, link.latency, link.combine, link.start});
  };
  for (unsigned question = 0; question != 20; ++question) {
    std::vector<unsigned> some = devices(numDevices);
    if (question % 2)
      std::shuffle(some.begin(), some.end(), random);
    int64_t inner = 1 + random() % 4, outer = 1 + random() % (numDevices / inner);
    unsigned first = random() % (numDevices - inner * outer + 1);
    auto grid = llvm::ArrayRef(some).slice(first, inner * outer);
    for (std::vector<unsigned> axes : {std::vector<unsigned>{0}, {1}, {0, 1}}) {
      add(topology.along(grid, {outer, inner}, axes));
      for (const LinkLevel &level : topology.levels(grid, {outer, inner}, axes)) {
        answers.insert(answers.end(), {double(level.ways), level.ring});
        add(level.link);
      }
    }
    unsigned from = random() % numDevices, to = random() % numDevices;
    add(topology.between(from, to));
    add(topology.across(devices(2, random() % (numDevices - 1)), devices(2, random() % (numDevices - 1))));
    for (const Topology::Way::Part &part : topology.way(from, to).parts)
      answers.insert(answers.end(), {double(part.number), part.bandwidth});
  }
  return answers;
}

// Zones that no link names change no answer by a bit; nor do hosts that no link is for.
TEST(TopologyTest, ZonesAloneChangeNothing) {
  for (unsigned seed = 0; seed != 200; ++seed) {
    std::mt19937 with(seed), without(seed);
    std::string zoned = randomHosts(with, true), plain = randomHosts(without, false);
    Machine machine = machineIn((kinds + plain).str());
    unsigned count = machine.devices.size();
    auto expected = answersOf(Topology(machine), count, seed);
    EXPECT_EQ(answersOf(Topology(machineIn((kinds + zoned).str())), count, seed), expected) << seed;
    // A further host in a zone of its own, which no question is about, with a link to itself.
    std::string more = "  - { zone: c, devices: [ { kind: gpu, count: 1 } ] }\nnetwork:";
    std::string linked = zoned;
    linked.replace(linked.rfind("network:"), 8, more);
    linked += "links: [ { between: [c, c], bandwidth: 1 GB/s, latency: 1 s } ]\n";
    EXPECT_EQ(answersOf(Topology(machineIn((kinds + linked).str())), count, seed), expected) << seed;
  }
}

// Tens of thousands of hosts in two zones: only links that somebody asks for have numbers.
TEST(TopologyTest, ManyHostsInZones) {
  auto begin = std::chrono::steady_clock::now();
  Topology topology(machineIn((kinds + R"(
hosts:
  - { count: 20000, zone: east, devices: [ { kind: gpu, count: 1 } ] }
  - { count: 20000, zone: west, devices: [ { kind: gpu, count: 1 } ] }
network: { bandwidth: 2 GB/s, latency: 20 us }
links: [ { between: [east, east], bandwidth: 1 GB/s, latency: 10 us },
         { between: [east, west], bandwidth: 0.5 GB/s, latency: 30 ms } ]
)")
                                  .str()));
  EXPECT_LT(topology.numLinks(), 400000u);
  expectLink(topology.along(devices(40000), {40000}, {0}), 0.5e9, 30e-3 + 5 * us);
  for (unsigned first = 0; first != 16000; ++first)
    expectLink(topology.along(devices(4, first), {4}, {0}), 1e9, 15 * us);
  EXPECT_LT(topology.numLinks(), 600000u);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 5);
}

//===-- what devices of a host share --------------------------------------------------------------------------===//

// Two devices on one switch that send out of it at once get half of its way up each, one device all that it can take;
// the other switch's devices are not held up.
TEST(TopologyTest, TwoOnASwitch) {
  Topology topology(machineIn((kinds + R"(
hosts:
  - { devices: [ { kind: gpu, count: 4 } ],
      switches: [ { count: 2, devices: 2, bandwidth: 8 GB/s, latency: 1 us, up: { bandwidth: 10 GB/s, latency: 1 us } } ] }
)")
                                  .str()));
  EXPECT_NEAR(topology.across({0}, {2}).bandwidth, 8e9, 1);
  EXPECT_NEAR(topology.across({0, 1}, {2, 3}).bandwidth, 5e9, 1);
  // The two directions of a way up are two links.
  EXPECT_NEAR(topology.across({0, 2}, {2, 0}).bandwidth, 8e9, 1);
  // Inside the switch nothing is shared but a device's own link.
  EXPECT_NEAR(topology.across({0, 1, 2, 3}, {1, 0, 3, 2}).bandwidth, 8e9, 1);
  EXPECT_NEAR(topology.across({0, 0}, {1, 1}).bandwidth, 4e9, 1);
}

// Devices of a host that send to others share its ports, and these the switch that leads to them.
TEST(TopologyTest, SharedPorts) {
  auto machineWith = [](unsigned ports) {
    return machineIn((kinds + R"(
hosts:
  - { count: 2, devices: [ { kind: gpu, count: 4 } ],
      switches: [ { count: 2, devices: 2, bandwidth: 8 GB/s, latency: 1 us, up: { bandwidth: 10 GB/s, latency: 1 us } } ] }
network: { bandwidth: 6 GB/s, latency: 10 us, ports: )" +
                      std::to_string(ports) + " }")
                         .str());
  };
  for (unsigned ports : {1, 2, 4}) {
    Topology topology(machineWith(ports));
    for (unsigned count = 1; count <= 4; ++count) {
      // One port each at most; all ports together; two on a switch share its way up.
      double expected = std::min({6e9, ports * 6e9 / count, count > 1 ? 5e9 : 8e9});
      EXPECT_NEAR(topology.across(devices(count), devices(count, 4)).bandwidth, expected, 1) << ports << " " << count;
    }
  }
}

} // namespace
