// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the probe of GPUs writes is a machine file: the compiler reads from it what was measured.

#include "tools/cleave-run/GpuMachineFile.h"

#include "passes/cost/MachineFile.h"

#include <gtest/gtest.h>
#include <sstream>

using namespace cleave;

namespace {

Machine writtenAndRead(const GpuMeasurement &measured) {
  std::ostringstream text;
  writeGpuMachineFile(measured, text);
  auto machine = parseMachineFile(text.str(), "probe.yaml");
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError()) << text.str();
  return machine ? std::move(*machine) : Machine();
}

/// Two GPUs: products reach 50 TFLOP/s at best, memory 3 TB/s, small calls less, and a cache more.
GpuMeasurement twoGpus() {
  GpuMeasurement measured;
  measured.name = "NVIDIA H100 80GB HBM3";
  measured.chip = "sm_90";
  measured.gpus = 2;
  measured.memory = (uint64_t(79) << 30) + 12345;
  measured.launch = 1.5e-6;
  measured.launchAlone = 4e-6;
  measured.step = 17e-6;
  measured.hostBandwidth = 50e9;
  measured.hostLatency = 3.5e-6;
  measured.linkBandwidth = 400e9;
  measured.linkLatency = 12e-6;
  measured.samples = {
      {"contraction", "f32", 1.1e12, 1.1e12 / 50e12},   {"contraction", "f32", 2e9, 2e9 / 20e12},
      {"contraction", "bf16", 5e5, 5e5 / 0.14e12},      {"contraction", "bf16", 1.1e12, 1.1e12 / 700e12},
      {"contraction", "tf32", 1.1e12, 1.1e12 / 300e12}, {"convolution", "f32", 3.6e9, 3.6e9 / 30e12},
      {"elementwise", "f32", 1048576, 1048576 / 6e12},  {"elementwise", "f32", 1 << 30, (1 << 30) / 3e12},
      {"movement", "f32", 1 << 30, (1 << 30) / 2.7e12}};
  return measured;
}

// Every measurement reaches its place, in the compiler's units.
TEST(GpuMachineFileTest, IsReadByTheCompiler) {
  Machine machine = writtenAndRead(twoGpus());
  ASSERT_EQ(machine.devices.size(), 2u);
  EXPECT_EQ(machine.devices[1].name, "h100.1");
  EXPECT_EQ(machine.devices[1].driver, "cuda");
  EXPECT_EQ(machine.devices[1].chip, "sm_90");
  const DeviceKind &kind = machine.kinds.at("h100");
  EXPECT_EQ(kind.memory, uint64_t(79) << 30); // in whole MiB
  EXPECT_DOUBLE_EQ(kind.bandwidth, 3e12);
  EXPECT_DOUBLE_EQ(kind.peak.at("f32"), 50e12);
  EXPECT_DOUBLE_EQ(kind.peak.at("bf16"), 700e12);
  EXPECT_DOUBLE_EQ(kind.peak.at("tf32"), 300e12);
  EXPECT_DOUBLE_EQ(kind.launch, 1.5e-6);
  EXPECT_DOUBLE_EQ(kind.step, 17e-6);
  EXPECT_DOUBLE_EQ(kind.host.bandwidth, 50e9);
  EXPECT_DOUBLE_EQ(kind.host.latency, 3.5e-6);
  ASSERT_TRUE(machine.hosts[0].link);
  EXPECT_DOUBLE_EQ(machine.hosts[0].link->bandwidth, 400e9);
  EXPECT_DOUBLE_EQ(machine.hosts[0].link->latency, 12e-6);
}

// Shares are of the best rate of the same type, in order of size, and above 1 where a cache is faster than the memory.
TEST(GpuMachineFileTest, Shares) {
  Machine machine = writtenAndRead(twoGpus());
  const DeviceKind &kind = machine.kinds.at("h100");
  const EfficiencyCurve &products = *kind.findCurve("contraction", "f32");
  ASSERT_EQ(products.points.size(), 2u);
  EXPECT_DOUBLE_EQ(products.points[0].size, 2e9);
  EXPECT_DOUBLE_EQ(products.points[0].share, 0.4);
  EXPECT_DOUBLE_EQ(products.points[1].share, 1);
  EXPECT_DOUBLE_EQ(kind.findCurve("contraction", "bf16")->points[0].share, 2e-4); // a small one is slow
  EXPECT_DOUBLE_EQ(kind.findCurve("contraction", "bf16")->points[1].share, 1);
  EXPECT_DOUBLE_EQ(kind.findCurve("convolution", "f32")->points[0].share, 0.6);
  EXPECT_DOUBLE_EQ(kind.findCurve("elementwise", "f32")->points[0].share, 2);
  EXPECT_DOUBLE_EQ(kind.findCurve("movement", "f32")->points[0].share, 0.9);
}

// Where a library is missing the rest still makes a file, and numbers of any size keep four digits.
TEST(GpuMachineFileTest, IncompleteMeasurements) {
  GpuMeasurement measured;
  measured.name = "Graphics Device";
  measured.chip = "sm_80";
  measured.memory = uint64_t(1) << 20;
  measured.launch = 1.23456e-7;
  measured.samples = {{"elementwise", "f32", 65536, 65536 / 123.456e9}};
  Machine machine = writtenAndRead(measured);
  const DeviceKind &kind = machine.kinds.at("gpu");
  EXPECT_TRUE(kind.peak.empty());
  EXPECT_DOUBLE_EQ(kind.launch, 123.5e-9);
  EXPECT_NEAR(kind.bandwidth, 123.5e9, 0.06e9);
  EXPECT_FALSE(machine.hosts[0].link);
}

// Names as NVIDIA's driver gives them.
TEST(GpuMachineFileTest, KindNames) {
  for (auto [name, kind] : {std::pair("NVIDIA H100 80GB HBM3", "h100"), std::pair("NVIDIA A100-SXM4-80GB", "a100"),
                            std::pair("Tesla V100-PCIE-16GB", "v100"), std::pair("NVIDIA GeForce RTX 4090", "gpu"),
                            std::pair("NVIDIA RTX A6000", "a6000"), std::pair("GPU", "gpu")})
    EXPECT_EQ(gpuKindName(name), kind) << name;
}

} // namespace
