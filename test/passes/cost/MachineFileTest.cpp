// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machine files: what is read, and that what is written reads back.

#include "passes/cost/MachineFile.h"
#include "passes/cost/Presets.h"
#include "passes/cost/Quantity.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace cleave;

namespace {

std::string written(const Machine &machine) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeMachineFile(machine, stream, "a remark\nin two lines");
  return text;
}

Machine parsed(llvm::StringRef text) {
  auto machine = parseMachineFile(text, "test.yaml");
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError()) << text.str();
  return machine ? std::move(*machine) : Machine();
}

void expectEqual(const Machine &a, const Machine &b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_TRUE(a.kinds == b.kinds);
  EXPECT_TRUE(a.hosts == b.hosts);
  EXPECT_TRUE(a.network == b.network);
  EXPECT_TRUE(a.links == b.links);
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (size_t i = 0; i < a.devices.size(); ++i)
    EXPECT_TRUE(a.devices[i].name == b.devices[i].name && a.devices[i].host == b.devices[i].host &&
                a.devices[i].memoryLimit == b.devices[i].memoryLimit && a.devices[i].driver == b.devices[i].driver &&
                a.devices[i].chip == b.devices[i].chip && a.devices[i].zone == b.devices[i].zone);
}

constexpr llvm::StringLiteral everything = R"(
name: "it's all here"
device_kinds:
  big:
    memory: 1.5 GiB
    bandwidth: 900 GB/s
    peak: { f32: 15.7 TFLOP/s, f16: 125 TFLOP/s }
    launch: 5 us
    step: 20 us
    host: { bandwidth: 25 GB/s, latency: 3 us }
    overlap_slowdown: 1.1
    neighbour_slowdown: 1.25
    efficiency:
      contraction: 0.85
      contraction.f32: [ { at: 1 MFLOP, share: 0.1 }, { at: 1 GFLOP, share: 0.9 } ]
      movement: [ { at: 64 KiB, share: 4 }, { at: 1 GB, share: 0.7 } ]
  "odd name": { driver: cpu, cores: 3 }
  known: { chip: sm_100 }
  gpu: { driver: cuda, chip: sm_90 }
  plain gpu: { driver: cuda }
hosts:
  - { count: 2, memory: 1 GiB, devices: [ { kind: big, count: 4 } ],
      links: [ { between: devices, bandwidth: 130 GB/s, latency: 3 us, combine: 2 GB/s },
               { between: [3, 1], bandwidth: 50 GB/s, latency: 1500 ns } ],
      switches: [ { devices: 1, bandwidth: 6 GB/s, latency: 2 us },
                  { count: 3, devices: 1, bandwidth: 5 GB/s, latency: 2 us, up: { bandwidth: 1 GB/s, latency: 0 s } } ],
      network: { bandwidth: 200 Gb/s, latency: 5 us, ports: 8 } }
  - { cores: 6, zone: "far, away", devices: [ { kind: big }, { kind: "odd name", count: 2 }, { kind: known }, { kind: gpu }, { kind: plain gpu } ] }
  - { zone: near, devices: [ { kind: known } ] }
  - { zone: unlinked, devices: [ { kind: known } ] }
network: { bandwidth: 25 Gb/s, latency: 20 us }
links:
  - { between: [near, "far, away"], bandwidth: 0.115 GB/s, latency: 30 ms, combine: 1 GB/s, shared: true }
  - { from: near, to: "far, away", bandwidth: 1 GB/s, latency: 20 ms, start: 1 ms, shared: false }
  - { between: [near, near], bandwidth: 2 GB/s, latency: 0 s }
)";

// Every key reaches its place, in units of bytes, operations and seconds.
TEST(MachineFileTest, Everything) {
  Machine machine = parsed(everything);
  EXPECT_EQ(machine.name, "it's all here");
  const DeviceKind &big = machine.kinds.at("big");
  EXPECT_EQ(big.memory, 1610612736u);
  EXPECT_EQ(big.bandwidth, 900e9);
  EXPECT_EQ(big.peak.at("f16"), 125e12);
  EXPECT_EQ(big.launch, 5e-6);
  EXPECT_EQ(big.step, 20e-6);
  EXPECT_EQ(big.host, (LinkSpec{25e9, 3e-6}));
  EXPECT_EQ(big.overlapSlowdown, 1.1);
  EXPECT_EQ(big.neighbourSlowdown, 1.25);
  EXPECT_EQ(big.driver, "null");
  ASSERT_EQ(machine.hosts.size(), 4u);
  const HostSpec &host = machine.hosts[0];
  EXPECT_EQ(host.count, 2u);
  EXPECT_EQ(host.memory, 1u << 30);
  EXPECT_EQ(hostMemory(machine), (std::vector<uint64_t>{1u << 28, 1u << 28, 0, 0, 0}));
  EXPECT_EQ(*host.link, (LinkSpec{130e9, 3e-6, 2e9}));
  EXPECT_EQ(host.cores, 0u);
  EXPECT_EQ(machine.hosts[1].cores, 6u);
  ASSERT_EQ(host.pairs.size(), 1u);
  EXPECT_EQ(host.pairs[0], (PairSpec{1, 3, {50e9, 1500e-9}}));
  ASSERT_EQ(host.switches.size(), 4u);
  // Without a way up of its own a switch has one like its devices'.
  EXPECT_EQ(host.switches[0].up, (LinkSpec{6e9, 2e-6}));
  EXPECT_EQ(host.switches[3].up, (LinkSpec{1e9, 0}));
  EXPECT_EQ(host.network->link.bandwidth, 25e9);
  EXPECT_EQ(host.network->ports, 8u);
  EXPECT_EQ(machine.network->link, (LinkSpec{3.125e9, 20e-6}));
  ASSERT_EQ(machine.links.size(), 3u);
  EXPECT_EQ(machine.links[0], (ZoneLinkSpec{"near", "far, away", true, true, {0.115e9, 30e-3, 1e9}}));
  EXPECT_EQ(machine.links[1], (ZoneLinkSpec{"near", "far, away", false, false, {1e9, 20e-3, 0, 1e-3}}));
  EXPECT_EQ(machine.links[2], (ZoneLinkSpec{"near", "near", true, false, {2e9, 0}}));
  // Devices of one zone have one number, those of zones that no link names none.
  EXPECT_EQ(machine.hosts[0].zone, "");
  EXPECT_EQ(machine.hosts[1].zone, "far, away");
  EXPECT_EQ(machine.devices[0].zone, 0u);
  EXPECT_NE(machine.devices[8].zone, 0u);
  EXPECT_EQ(machine.devices[8].zone, machine.devices[13].zone);
  EXPECT_NE(machine.devices[14].zone, machine.devices[8].zone);
  EXPECT_NE(machine.devices[14].zone, 0u);
  EXPECT_EQ(machine.devices[15].zone, 0u);
  // Devices stand host by host.
  ASSERT_EQ(machine.devices.size(), 16u);
  EXPECT_EQ(machine.devices[4].host, 1u);
  EXPECT_EQ(machine.devices[10].name, "odd name.10");
  EXPECT_EQ(machine.devices[10].driver, "cpu");
  EXPECT_EQ(machine.devices[10].cores, 3u);
  EXPECT_EQ(machine.devices[10].chip, "");
  // A chip is what code is compiled for; what only stands for a GPU takes any.
  EXPECT_EQ(machine.kinds.at("known").chip, "sm_100");
  EXPECT_EQ(machine.devices[11].chip, "sm_80");
  EXPECT_TRUE(machine.devices[11].isGpu());
  EXPECT_FALSE(machine.devices[10].isGpu());
  EXPECT_EQ(machine.devices[12].driver, "cuda");
  EXPECT_EQ(machine.devices[12].chip, "sm_90");
  EXPECT_EQ(machine.devices[13].chip, "sm_80");
}

// Between points the share follows the logarithm of the size; beyond them it stays.
TEST(MachineFileTest, Curves) {
  Machine machine = parsed(everything);
  const DeviceKind &big = machine.kinds.at("big");
  const EfficiencyCurve *curve = big.findCurve("contraction", "f32");
  ASSERT_TRUE(curve);
  EXPECT_EQ(curve->at(1), 0.1);
  EXPECT_NEAR(curve->at(std::sqrt(1e6 * 1e9)), 0.5, 1e-12);
  EXPECT_EQ(curve->at(1e15), 0.9);
  EXPECT_EQ(big.findCurve("contraction", "f16")->at(5), 0.85);
  EXPECT_EQ(big.findCurve("movement", "f32")->at(1), 4);
  EXPECT_EQ(big.findCurve("reduction", "f32"), nullptr);
}

TEST(MachineFileTest, ReadsBack) {
  Machine machine = parsed(everything);
  expectEqual(parsed(written(machine)), machine);
  // A kind of which nothing is said.
  Machine plain = parsed("device_kinds: { x: {} }\nhosts: [ { devices: [ { kind: x } ] } ]");
  expectEqual(parsed(written(plain)), plain);
}

TEST(MachineFileTest, PresetsReadBack) {
  for (const Preset &preset : allPresets()) {
    auto machine = parsePreset(preset.name);
    ASSERT_TRUE(bool(machine)) << preset.name.str();
    expectEqual(parsed(written(*machine)), *machine);
  }
  auto mixed = parsePreset("v100-16g:8x2+a100-80g:3");
  ASSERT_TRUE(bool(mixed));
  expectEqual(parsed(written(*mixed)), *mixed);
}

// Any number is written so that exactly that number is read.
TEST(MachineFileTest, QuantitiesReadBack) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-12, 15), mantissa(1, 10);
  for (llvm::ArrayRef<Unit> units :
       std::initializer_list<llvm::ArrayRef<Unit>>{sizeUnits, bandwidthUnits, speedUnits, workUnits, timeUnits, noUnit})
    for (int i = 0; i < 2000; ++i) {
      YamlValue value;
      value.kind = YamlValue::Kind::Text;
      double number = mantissa(random) * std::pow(10, exponent(random));
      if (i % 2)
        number = static_cast<double>(static_cast<float>(number));
      value.text = printQuantity(number, units);
      auto read = parseQuantity(value, units, "it");
      ASSERT_TRUE(bool(read)) << value.text;
      EXPECT_EQ(*read, number) << value.text;
    }
  EXPECT_EQ(printQuantity(900e9, bandwidthUnits), "900 GB/s");
  EXPECT_EQ(printQuantity(16.0 * (1 << 30), sizeUnits), "16 GiB");
  EXPECT_EQ(printQuantity(30e-6, timeUnits), "30 us");
  EXPECT_EQ(printQuantity(3.125e9, bandwidthUnits), "25 Gb/s");
  EXPECT_EQ(printQuantity(0, timeUnits), "0 s");
}

// Whichever comes first in the file, and what is said of a type takes the place of what is said of all.
TEST(MachineFileTest, TilesOfATypeFollowThoseOfAll) {
  auto kindWith = [](const std::string &efficiency) -> llvm::Expected<DeviceKind> {
    auto machine = parseMachineFile("device_kinds: { gpu: { efficiency: { " + efficiency +
                                        " } } }\nhosts: [ { devices: [ { kind: gpu } ] } ]\n",
                                    "m.yaml");
    return machine ? llvm::Expected<DeviceKind>(machine->kinds.at("gpu")) : machine.takeError();
  };
  auto kind = kindWith("contraction.f8: { sustained: 0.5, depth: [ { at: 4, share: 0.5 } ] }, "
                       "contraction: { units: 3, sustained: 0.75, tiles: [ { rows: 8, columns: 4 } ], "
                       "depth: [ { at: 1, share: 0.25 }, { at: 2, share: 1 } ] }, tuned_attention: 1.5");
  ASSERT_TRUE(bool(kind)) << llvm::toString(kind.takeError());
  const TileModel *all = kind->findTiles("bf16"), *own = kind->findTiles("f8");
  ASSERT_TRUE(all && own);
  EXPECT_EQ(all->sustained, 0.75);
  EXPECT_EQ(own->sustained, 0.5);
  EXPECT_EQ(own->units, 3u);
  EXPECT_EQ(own->tiles, all->tiles);
  EXPECT_EQ(all->depth.points.size(), 2u);
  ASSERT_EQ(own->depth.points.size(), 1u);
  EXPECT_EQ(own->depth.points.front().share, 0.5);
  EXPECT_EQ(kind->findCurve("tuned_attention", "f8")->at(1), 1.5);
  auto alone = kindWith("contraction.f8: { sustained: 0.5 }");
  ASSERT_FALSE(bool(alone));
  EXPECT_EQ(llvm::toString(alone.takeError()),
            "m.yaml:1:54: device kind \"gpu\" efficiency contraction.f8 expects the key \"units\", found none");
  auto nothing = kindWith("tuned_attention: 0");
  ASSERT_FALSE(bool(nothing));
  EXPECT_EQ(llvm::toString(nothing.takeError()),
            "m.yaml:1:55: device kind \"gpu\" efficiency tuned_attention expects more than 0, got \"0\"");
}

} // namespace
