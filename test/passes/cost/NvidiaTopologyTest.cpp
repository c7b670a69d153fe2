// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrices of nvidia-smi topo -m as machines print them, and damaged ones.

#include "passes/cost/NvidiaTopology.h"
#include "passes/cost/Topology.h"

#include <gtest/gtest.h>
#include <random>

using namespace cleave;

namespace {

// p3.16xlarge.
constexpr llvm::StringLiteral p3 =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\t0-31\t0\n"
    "GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\t0-31\t0\n"
    "GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\t0-31\t0\n"
    "GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\t0-31\t0\n"
    "GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\t32-63\t1\n"
    "GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\t32-63\t1\n"
    "GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\t32-63\t1\n"
    "GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \t32-63\t1\n"
    "\n"
    "Legend:\n\n"
    "  X    = Self\n"
    "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n";

// Four A100 of a DGX with two of its network cards.
constexpr llvm::StringLiteral dgx =
    "        GPU0    GPU1    GPU2    GPU3    mlx5_0  mlx5_1  CPU Affinity    NUMA Affinity\n"
    "GPU0     X      NV12    NV12    NV12    PXB     SYS     48-63           3\n"
    "GPU1    NV12     X      NV12    NV12    PXB     SYS     48-63           3\n"
    "GPU2    NV12    NV12     X      NV12    SYS     PXB     16-31           1\n"
    "GPU3    NV12    NV12    NV12     X      SYS     PXB     16-31           1\n"
    "mlx5_0  PXB     PXB     SYS     SYS      X      SYS\n";

// Eight devices on two PCI Express switches, without NVLink.
constexpr llvm::StringLiteral pcie = "GPU0 GPU1 GPU2 GPU3 CPU Affinity\n"
                                     "GPU0 X PIX SYS SYS 0-5\n"
                                     "GPU1 PIX X SYS SYS 0-5\n"
                                     "GPU2 SYS SYS X PIX 6-11\n"
                                     "GPU3 SYS SYS PIX X 6-11\n";

llvm::Expected<Machine> read(llvm::StringRef text, llvm::StringRef preset) {
  return parseNvidiaTopology(text, "topo.txt", *findPreset(preset));
}

Machine machineOf(llvm::StringRef text, llvm::StringRef preset) {
  auto machine = read(text, preset);
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  return machine ? std::move(*machine) : Machine();
}

std::string errorOf(llvm::StringRef text, llvm::StringRef preset = "v100-16g") {
  auto machine = read(text, preset);
  return machine ? "none" : llvm::toString(machine.takeError());
}

// The preset of that machine says the same of its pairs.
TEST(NvidiaTopologyTest, Pairs) {
  Machine machine = machineOf(p3, "v100-16g");
  auto preset = parsePreset("v100-16g");
  ASSERT_TRUE(bool(preset));
  EXPECT_FALSE(machine.hosts[0].link);
  EXPECT_TRUE(machine.hosts[0].pairs == preset->hosts[0].pairs);
  EXPECT_EQ(machine.devices.size(), 8u);
  EXPECT_EQ(machine.devices[7].kind, "v100");
}

// More links to the others than a device has: all go to a switch.
TEST(NvidiaTopologyTest, Switch) {
  Machine machine = machineOf(dgx, "a100-80g");
  ASSERT_TRUE(machine.hosts[0].link);
  EXPECT_NEAR(machine.hosts[0].link->bandwidth, 235e9, 1);
  EXPECT_TRUE(machine.hosts[0].pairs.empty());
  EXPECT_TRUE(machine.hosts[0].switches.empty());
  EXPECT_EQ(machine.network->ports, 8u);
}

TEST(NvidiaTopologyTest, PciExpress) {
  Machine machine = machineOf(pcie, "k20x8");
  ASSERT_EQ(machine.hosts[0].switches.size(), 2u);
  EXPECT_EQ(machine.hosts[0].switches[0].devices, 2u);
  EXPECT_EQ(machine.hosts[0].switches[0].link.bandwidth, 6e9);
  Topology topology(machine);
  EXPECT_GT(topology.between(0, 2).latency, topology.between(0, 1).latency);
}

// Where no switch is named, the host's bridges are the switches; a device may be alone on one.
TEST(NvidiaTopologyTest, Bridges) {
  Machine machine = machineOf("GPU0 GPU1 GPU2\nGPU0 X PHB SYS\nGPU1 PHB X SYS\nGPU2 SYS SYS X\n", "v100-16g");
  ASSERT_EQ(machine.hosts[0].switches.size(), 2u);
  EXPECT_EQ(machine.hosts[0].switches[0].devices, 2u);
  EXPECT_EQ(machine.hosts[0].switches[1].devices, 1u);
  EXPECT_EQ(machineOf("GPU0\nGPU0 X\n", "h100").devices.size(), 1u);
}

// Every mistake with its line and column.
TEST(NvidiaTopologyTest, Errors) {
  EXPECT_EQ(errorOf(""), "topo.txt:1:1: expects a heading \"GPU0 GPU1 …\" as nvidia-smi topo -m prints it, found none");
  EXPECT_EQ(errorOf("GPU0 GPU1\nGPU0 X NV1\n"), "topo.txt:3:1: expects 2 rows of GPUs, got 1");
  EXPECT_EQ(errorOf("GPU0 GPU1\nGPU1 X NV1\n"), "topo.txt:2:1: expects the row of GPU0, got GPU1");
  EXPECT_EQ(errorOf("GPU0 GPU1\nGPU0 X\n"), "topo.txt:2:6: expects 2 connections, got 1");
  EXPECT_EQ(errorOf("GPU0 GPU1\nGPU0 NV1 X\n"), "topo.txt:2:6: expects X between a GPU and itself, got \"NV1\"");
  EXPECT_EQ(errorOf("GPU0 GPU1\nGPU0 X NV19\n"),
            "topo.txt:2:8: expects NV1 to NV18, PIX, PXB, PHB, NODE or SYS between two GPUs, got \"NV19\"");
  EXPECT_EQ(errorOf("GPU0 GPU1\nGPU0 X NV1\nGPU1 NV2 X\n"),
            "topo.txt:3:6: expects the same connection as from GPU0 to GPU1, got NV2");
  EXPECT_EQ(errorOf("GPU0\nGPU0 X\nGPU1 X\n"), "topo.txt:3:1: expects 1 GPUs as the heading has, got GPU1");
  EXPECT_EQ(errorOf(pcie, "cpu"), "topo.txt: expects devices of NVIDIA, got those of preset cpu");
  EXPECT_EQ(errorOf("GPU0 GPU1\nGPU0 X NV1\nGPU1 NV1 X\n", "k20x8"),
            "topo.txt:2:8: expects no NVLink between devices of this kind, got \"NV1\"");
  std::string many;
  for (int i = 0; i < 65; ++i)
    many += "GPU" + std::to_string(i) + " ";
  EXPECT_EQ(errorOf(many), "topo.txt:1:375: expects at most 64 GPUs, got more");
}

// Damaged text is refused or read, and does nothing else.
TEST(NvidiaTopologyTest, Damage) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text = round % 2 ? p3.str() : dgx.str();
    for (int i = 0; i < 1 + round % 4; ++i)
      text[random() % text.size()] = static_cast<char>(random());
    text.resize(text.size() - (round % 8 == 0 ? random() % text.size() : 0));
    if (auto machine = read(text, "v100-16g"))
      Topology topology(*machine);
    else
      llvm::consumeError(machine.takeError());
  }
}

} // namespace
