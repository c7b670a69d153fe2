// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What meshes communicate, against closed formulas (Thakur, Rabenseifner, Gropp 2005) for machines of two hosts whose
// inner and outer links are told apart.

#include "passes/cost/MeshCost.h"

#include "passes/cost/MachineFile.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

constexpr double inside = 100e9, insideLatency = 2e-6, outside = 10e9, outsideLatency = 20e-6;

/// Two hosts of four devices; each device has a port of the network to itself.
class MeshCosts : public testing::Test {
protected:
  Machine machine = llvm::cantFail(parseMachineFile(R"(
device_kinds: { gpu: {} }
hosts: [ { count: 2, devices: [ { kind: gpu, count: 4 } ],
           links: [ { between: devices, bandwidth: 100 GB/s, latency: 2 us } ] } ]
network: { bandwidth: 10 GB/s, latency: 20 us, ports: 4 }
)",
                                                    "test.yaml"));
  Topology topology{machine};
  /// Axis 0 across the hosts, axis 1 inside of them.
  MeshCost mesh{topology, {0, 1, 2, 3, 4, 5, 6, 7}, {2, 4}};
};

// Axes inside of a host use its links, axes across hosts the network, which the devices of a host have a port each of.
TEST_F(MeshCosts, AxesHaveTheirLinks) {
  double bytes = 1e9;
  EXPECT_NEAR(mesh.allGather(bytes, {1}), 3 * insideLatency + 3 * bytes / 4 / inside, 1e-9);
  // Between devices of two hosts: half of each host's link, and the network.
  EXPECT_NEAR(mesh.allGather(bytes, {0}), insideLatency + outsideLatency + bytes / 2 / outside, 1e-9);
  EXPECT_NEAR(mesh.reduceScatter(bytes, {1}), mesh.allGather(bytes, {1}), 1e-12);
  EXPECT_NEAR(mesh.allReduce(bytes, {1}), 2 * mesh.allGather(bytes, {1}), 1e-12);
  EXPECT_NEAR(mesh.allToAll(bytes, {1}), 3 * insideLatency + 3 * bytes / 16 / inside, 1e-9);
}

// Each message of an exchange has its latency; over several axes the slowest link counts.
TEST_F(MeshCosts, ExchangesAreMessages) {
  EXPECT_NEAR(mesh.exchange(1e6, 3, {1}), 3 * insideLatency + 1e6 / inside, 1e-12);
  EXPECT_NEAR(mesh.exchange(1e6, 7, {0, 1}), 7 * (insideLatency + outsideLatency) + 1e6 / outside, 1e-12);
  EXPECT_EQ(mesh.exchange(0, 0, {1}), 0);
}

TEST_F(MeshCosts, HalosComeFromBothSides) {
  EXPECT_NEAR(mesh.exchangeHalo(1e6, {1}), 2 * insideLatency + 1e6 / inside, 1e-12);
}

// Nothing is communicated along no axes, or along one of a single device.
TEST_F(MeshCosts, AloneThereIsNothingToSay) {
  MeshCost alone(topology, {0, 1}, {1, 2, 1});
  unsigned single = 0;
  for (llvm::ArrayRef<unsigned> axes : {llvm::ArrayRef<unsigned>(), llvm::ArrayRef(single)}) {
    EXPECT_EQ(alone.allReduce(1e6, axes), 0);
    EXPECT_EQ(alone.allGather(1e6, axes), 0);
    EXPECT_EQ(alone.reduceScatter(1e6, axes), 0);
    EXPECT_EQ(alone.allToAll(1e6, axes), 0);
    EXPECT_EQ(alone.exchange(1e6, 1, axes), 0);
    EXPECT_EQ(alone.exchangeHalo(1e6, axes), 0);
  }
  EXPECT_NEAR(alone.allGather(1e6, {0, 1, 2}), insideLatency + 1e6 / 2 / inside, 1e-12);
}

} // namespace
