// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Presets against what their makers publish, and machines of several of their hosts.

#include "passes/cost/Presets.h"
#include "passes/cost/Topology.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace cleave;

namespace {

Machine machineOf(llvm::StringRef text) {
  auto machine = parsePreset(text);
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  return machine ? std::move(*machine) : Machine();
}

// Data sheets: operations a second by type, memory (of A100, H100 and H200 what is left to programs) and its bandwidth,
// devices of a host.
TEST(PresetsTest, DataSheets) {
  struct Sheet {
    llvm::StringRef preset, kind, type;
    double peak, bandwidth, memory;
    unsigned devices;
  };
  for (const Sheet &sheet :
       {Sheet{"k20x8", "k20", "f32", 3.52e12, 208e9, 5e9, 8},
        Sheet{"v100-16g", "v100", "f16", 125e12, 900e9, 16.0 * (1 << 30), 8},
        Sheet{"v100-16g", "v100", "f32", 15.7e12, 900e9, 16.0 * (1 << 30), 8},
        Sheet{"a100-80g", "a100", "f16", 312e12, 2039e9, std::floor(79.2 * (1 << 30)), 8},
        Sheet{"a100-80g", "a100", "tf32", 156e12, 2039e9, std::floor(79.2 * (1 << 30)), 8},
        Sheet{"h100", "h100", "bf16", 989.4e12, 3350e9, std::floor(79.6 * (1 << 30)), 8},
        Sheet{"h200", "h200", "f32", 67e12, 4800e9, std::floor(139.2 * (1 << 30)), 8},
        Sheet{"a100-40g", "a100-40g", "bf16", 312e12, 1555e9, std::floor(39.4 * (1 << 30)), 8},
        Sheet{"b200", "b200", "bf16", 2250e12, 7700e9, 178.0 * (1 << 30), 8},
        Sheet{"gb300", "gb300", "bf16", 2500e12, 8000e9, 268.0 * (1 << 30), 72},
        Sheet{"gb300", "gb300", "f8", 5000e12, 8000e9, 268.0 * (1 << 30), 72},
        Sheet{"b300", "b300", "f8", 4500e12, 8000e9, 268.0 * (1 << 30), 8},
        Sheet{"b300", "b300", "bf16", 2250e12, 8000e9, 268.0 * (1 << 30), 8},
        Sheet{"gb200", "gb200", "f8", 5000e12, 8000e9, 184.0 * (1 << 30), 72},
        Sheet{"gb200", "gb200", "tf32", 1250e12, 8000e9, 184.0 * (1 << 30), 72},
        Sheet{"b200", "b200", "f8", 4500e12, 7700e9, 178.0 * (1 << 30), 8},
        Sheet{"h100", "h100", "f8", 1978.9e12, 3350e9, std::floor(79.6 * (1 << 30)), 8},
        Sheet{"mi300x", "mi300x", "bf16", 1307.4e12, 5300e9, 191.0 * (1 << 30), 8},
        // f16 with sums in f32: half of the sheet's rate on GeForce cards.
        Sheet{"titan-rtx", "titan-rtx", "f16", 130.5e12, 672e9, std::floor(23.6 * (1 << 30)), 8},
        Sheet{"rtx-2080ti", "rtx-2080ti", "f16", 107.6e12 / 2, 616e9, std::floor(10.6 * (1 << 30)), 8},
        Sheet{"rtx-3090", "rtx-3090", "f16", 142e12 / 2, 936e9, std::floor(23.7 * (1 << 30)), 8},
        Sheet{"rtx-4090", "rtx-4090", "bf16", 330.4e12 / 2, 1008e9, 23.5 * (1 << 30), 8},
        Sheet{"gh200", "gh200", "tf32", 494.7e12, 4000e9, 94.5 * (1 << 30), 4},
        Sheet{"t4", "t4", "f16", 65e12, 320e9, std::floor(14.6 * (1 << 30)), 4},
        Sheet{"l4", "l4", "bf16", 121e12, 300e9, 22.0 * (1 << 30), 8},
        Sheet{"a10g", "a10g", "bf16", 70e12, 600e9, std::floor(22.1 * (1 << 30)), 8}}) {
    Machine machine = machineOf(sheet.preset);
    ASSERT_EQ(machine.devices.size(), sheet.devices);
    const DeviceKind &kind = machine.kinds.at(sheet.kind.str());
    EXPECT_DOUBLE_EQ(kind.peak.at(sheet.type.str()), sheet.peak);
    EXPECT_DOUBLE_EQ(kind.bandwidth, sheet.bandwidth);
    EXPECT_EQ(static_cast<double>(machine.devices[0].memoryLimit), sheet.memory);
    EXPECT_EQ(machine.devices[0].driver, "null");
  }
}

// What a type's tiles do not say is as for all types.
TEST(PresetsTest, TilesOfATypeFollowThose) {
  const DeviceKind kind = machineOf("h100").kinds.at("h100");
  const TileModel *all = kind.findTiles("bf16"), *own = kind.findTiles("f8");
  ASSERT_TRUE(all && own);
  EXPECT_EQ(own->units, all->units);
  EXPECT_EQ(own->tiles, all->tiles);
  // 1402.6 and 794.5 of 1978.9 and 989.4 TFLOP/s are the most that was measured.
  EXPECT_NEAR(own->sustained / all->sustained, (1402.6 / 1978.9) / (794.5 / 989.4), 0.005);
}

// NVIDIA's table of compute capabilities; processors have none.
TEST(PresetsTest, Chips) {
  for (auto [name, chip] : {std::pair("cpu", ""), std::pair("k20x8", "sm_35"), std::pair("v100-16g", "sm_70"),
                            std::pair("a100-80g", "sm_80"), std::pair("h100", "sm_90"), std::pair("h200", "sm_90"),
                            std::pair("titan-rtx", "sm_75"), std::pair("rtx-2080ti", "sm_75"), std::pair("t4", "sm_75"),
                            std::pair("rtx-3090", "sm_86"), std::pair("a10g", "sm_86"), std::pair("rtx-4090", "sm_89"),
                            std::pair("l4", "sm_89"), std::pair("gh200", "sm_90")})
    EXPECT_EQ(machineOf(name).kinds.begin()->second.chip, chip) << name;
}

// The same machine on GPUs: what is known of speed and connections stays, and "cuda:" is part of its name, by which it
// is found again.
TEST(PresetsTest, OnCuda) {
  auto machine = parseMachine("cuda:h100:2+a100-80g:1");
  ASSERT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  EXPECT_EQ(machine->name, "cuda:h100:2+a100-80g:1");
  ASSERT_EQ(machine->devices.size(), 3u);
  EXPECT_EQ(machine->devices[1].driver, "cuda");
  EXPECT_EQ(machine->devices[1].chip, "sm_90");
  EXPECT_EQ(machine->devices[2].chip, "sm_80");
  Machine simulated = machineOf("h100:2+a100-80g:1");
  EXPECT_TRUE(machine->hosts == simulated.hosts);
  DeviceKind kind = machine->kinds.at("h100");
  EXPECT_EQ(kind.driver, "cuda");
  kind.driver = "null";
  EXPECT_TRUE(kind == simulated.kinds.at("h100"));
}

// Large calls reach more than small ones, and none more than the peak. Of attention the share is one of what an A100
// reaches, of 0.62.
TEST(PresetsTest, Efficiencies) {
  for (const Preset &preset : allPresets())
    for (auto &[name, kind] : machineOf(preset.name).kinds)
      for (auto &[costClass, curve] : kind.efficiency) {
        double before = 0, most = llvm::StringRef(costClass).contains("attention") ? 1 / 0.62 : 1;
        for (double size = 1; size < 1e15; size *= 10) {
          EXPECT_GE(curve.at(size), before) << name << " " << costClass;
          EXPECT_LE(curve.at(size), most) << name << " " << costClass;
          before = curve.at(size);
        }
      }
}

// The first devices of a host with what is between them; several hosts.
TEST(PresetsTest, Sizes) {
  EXPECT_EQ(machineOf("a100-80g:8x128").devices.size(), 1024u);
  Machine four = machineOf("k20x8:4");
  ASSERT_EQ(four.hosts[0].switches.size(), 1u);
  EXPECT_EQ(four.hosts[0].switches[0].devices, 4u);
  Machine six = machineOf("k20x8:6x2");
  ASSERT_EQ(six.hosts[0].switches.size(), 2u);
  EXPECT_EQ(six.hosts[0].switches[1].devices, 2u);
  EXPECT_EQ(six.devices.back().host, 1u);
  // Of the hybrid cube mesh's pairs those of four devices.
  EXPECT_EQ(machineOf("v100-16g:4").hosts[0].pairs.size(), 6u);
}

// Kinds side by side, each with its own network.
TEST(PresetsTest, Mixtures) {
  Machine machine = machineOf("v100-16g:8x2+a100-80g:8x1");
  ASSERT_EQ(machine.devices.size(), 24u);
  EXPECT_EQ(machine.devices[15].kind, "v100");
  EXPECT_EQ(machine.devices[16].kind, "a100");
  EXPECT_EQ(machine.devices[16].host, 2u);
  EXPECT_EQ(machine.hosts[0].network->ports, 1u);
  EXPECT_EQ(machine.hosts[1].network->ports, 8u);
}

// Every device of V100's mesh has six links of 22 GB/s.
TEST(PresetsTest, HybridCubeMesh) {
  Machine machine = machineOf("v100-16g");
  std::vector<double> sums(8);
  for (const PairSpec &pair : machine.hosts[0].pairs) {
    sums[pair.first] += pair.link.bandwidth;
    sums[pair.second] += pair.link.bandwidth;
  }
  EXPECT_EQ(sums, std::vector<double>(8, 6 * 22e9));
}

// Krizhevsky 2014: four on a switch at the full rate, half of it when all cross.
TEST(PresetsTest, Krizhevsky) {
  Topology topology(machineOf("k20x8"));
  std::vector<unsigned> all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_DOUBLE_EQ(topology.along(all, {2, 4}, {1}).bandwidth, 6e9);
  EXPECT_DOUBLE_EQ(topology.along(all, {2, 4}, {0}).bandwidth, 3e9);
}

} // namespace
