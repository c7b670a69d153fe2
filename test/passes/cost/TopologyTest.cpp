// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Paths and shared links against values found by hand.

#include "passes/cost/Topology.h"

#include "passes/cost/MachineFile.h"
#include "passes/cost/Presets.h"

#include <chrono>
#include <gtest/gtest.h>
#include <numeric>

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

} // namespace
