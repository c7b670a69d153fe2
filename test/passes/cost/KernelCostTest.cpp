// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels and collectives cost, by hand and against measurements that others have published.

#include "passes/cost/CollectiveCost.h"
#include "passes/cost/OperatorCost.h"
#include "passes/cost/Presets.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

KernelWork product(double batch, double rows, double columns, double inner, double elementBytes = 2) {
  KernelWork work{CostClass::Contraction, 2 * batch * rows * columns * inner};
  work.lhs = batch * rows * inner;
  work.rhs = batch * inner * columns;
  work.result = batch * rows * columns;
  work.bytes = elementBytes * (work.lhs + work.rhs + work.result);
  return work;
}

DeviceKind kindOf(llvm::StringRef preset) {
  auto machine = parsePreset(preset);
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  return machine ? machine->kinds.begin()->second : DeviceKind();
}

TEST(KernelCostTest, ExtentsFollowFromSizes) {
  auto extents = product(3, 5, 7, 11).extents();
  ASSERT_TRUE(extents);
  EXPECT_DOUBLE_EQ(extents->batch, 3);
  EXPECT_DOUBLE_EQ(extents->rows, 5);
  EXPECT_DOUBLE_EQ(extents->columns, 7);
  EXPECT_DOUBLE_EQ(extents->inner, 11);
  EXPECT_FALSE((KernelWork{CostClass::Contraction, 100, 100}).extents());
}

// Four units with tiles of 2 x 2 at 8 operations a second each: 16 tiles of inner size 4 are 4 waves of 2 2 2 4 / 8 s;
// one tile more is one wave more.
TEST(KernelCostTest, TilesAreDoneInWaves) {
  DeviceKind kind;
  kind.peak["f16"] = 64;
  kind.bandwidth = 1e12;
  kind.tiles["contraction"] = {4, 0.5, {{2, 2, 1}}, {}, {}, {}};
  OperatorCost cost(kind, "f16");
  EXPECT_DOUBLE_EQ(cost.seconds(product(1, 8, 8, 4)), 16);
  EXPECT_DOUBLE_EQ(cost.seconds(product(2, 4, 8, 4)), 16);
  EXPECT_DOUBLE_EQ(cost.seconds(product(1, 2, 34, 4)), 20);
  EXPECT_DOUBLE_EQ(cost.sustainedFlops(), 32);
}

// The same units at twice the rate for f8, of which they sustain a quarter: as long as before. Where the kind has no
// such rate, linear layers are multiplied as all else, and so is what is not of a linear layer.
TEST(KernelCostTest, LinearLayersHaveATypeOfTheirOwn) {
  DeviceKind kind;
  kind.peak = {{"bf16", 64}, {"f8", 128}};
  kind.bandwidth = 1e12;
  kind.tiles["contraction"] = {4, 0.5, {{2, 2, 1}}, {}, {}, {}};
  OperatorCost same(kind, "bf16", 1, "f8");
  KernelWork work = product(1, 8, 8, 4), linear = work;
  linear.isLinear = true;
  EXPECT_DOUBLE_EQ(same.seconds(linear), 8);
  EXPECT_DOUBLE_EQ(same.seconds(work), 16);
  kind.tiles["contraction.f8"] = {4, 0.125, {{2, 2, 1}}, {}, {}, {}};
  OperatorCost slow(kind, "bf16", 1, "f8");
  EXPECT_TRUE(slow.roundsLinearLayers());
  EXPECT_DOUBLE_EQ(slow.seconds(linear), 32);
  EXPECT_DOUBLE_EQ(slow.seconds(work), 16);
  EXPECT_DOUBLE_EQ(slow.peakFlops(), 64);
  EXPECT_DOUBLE_EQ(slow.mostFlops(), 128);
  OperatorCost without(kind, "bf16");
  EXPECT_DOUBLE_EQ(without.seconds(linear), 16);
  EXPECT_DOUBLE_EQ(without.mostFlops(), 64);
  kind.peak.erase("f8");
  OperatorCost old(kind, "bf16", 1, "f8");
  EXPECT_FALSE(old.roundsLinearLayers());
  EXPECT_DOUBLE_EQ(old.seconds(linear), 16);
}

// Operands are read in fewer bytes, results written as before: of 2 x 32 operands and 64 results of 2 bytes 192 are
// left of 256.
TEST(KernelCostTest, RoundedOperandsAreSmaller) {
  DeviceKind kind;
  kind.peak = {{"bf16", 1e12}, {"f8", 1e12}};
  kind.bandwidth = 1;
  KernelWork work = product(1, 8, 8, 4);
  OperatorCost cost(kind, "bf16", 1, "f8");
  EXPECT_DOUBLE_EQ(cost.seconds(work), 256);
  work.isLinear = true;
  EXPECT_DOUBLE_EQ(cost.seconds(work), 192);
}

// Winograd's algorithm does less than is counted: its curve may exceed the peak. Where a machine has none, it takes
// what all convolutions take. The routine's name says which is which.
TEST(KernelCostTest, WinogradHasItsOwnCurve) {
  DeviceKind kind;
  kind.peak["f32"] = 100;
  kind.bandwidth = 1e12;
  kind.efficiency["contraction"].points = {{1, 1}};
  kind.efficiency["convolution"].points = {{1, 0.5}};
  auto seconds = [&](llvm::StringRef routine) {
    return OperatorCost(kind, "f32").seconds(workOfCall(CostClass::Contraction, 1000, 4, routine, 0, 0, 0));
  };
  EXPECT_DOUBLE_EQ(seconds("matmul"), 10);
  for (llvm::StringRef routine : {"convolution", "deconvolution", "convolution_weights", "convolution.winograd"})
    EXPECT_DOUBLE_EQ(seconds(routine), 20) << routine.str();
  kind.efficiency["winograd"].points = {{1, 2}};
  for (llvm::StringRef routine : {"convolution.winograd", "deconvolution.winograd", "convolution_weights.winograd"})
    EXPECT_DOUBLE_EQ(seconds(routine), 5) << routine.str();
  EXPECT_DOUBLE_EQ(seconds("convolution"), 20);
}

// Rows of 6 elements of 2 bytes are aligned to 4 bytes, of 64 to 128.
TEST(KernelCostTest, RowsAreAligned) {
  DeviceKind kind;
  kind.peak["f16"] = 64;
  kind.bandwidth = 1e12;
  kind.tiles["contraction"] = {1, 1, {{2, 2, 1}}, {{{4, 0.5}, {128, 1}}}, {}, {}};
  OperatorCost cost(kind, "f16");
  EXPECT_DOUBLE_EQ(cost.seconds(product(1, 2, 64, 6)), 2 * 2 * 64 * 6 / 32.0);
  EXPECT_DOUBLE_EQ(cost.seconds(product(1, 2, 64, 64)), 2 * 2 * 64 * 64 / 64.0);
}

// LLMCompass, artifact, matmul on an A100 in f16: TFLOP/s of M x 12288 x 12288 and of 8192 x N x N, with 21 us a call.
// These single calls reach 0.93 of the peak, which no long run does: with the preset's rate set to that, tiles explain
// the rest.
TEST(KernelCostTest, ProductsOfA100) {
  struct Measured {
    double rows, size, rate;
  };
  DeviceKind kind = kindOf("a100-80g");
  kind.tiles.at("contraction").sustained = 0.93;
  OperatorCost cost(kind, "f16");
  for (const Measured &one : {Measured{128, 12288, 193.0},
                              {256, 12288, 242.7},
                              {512, 12288, 252.7},
                              {1024, 12288, 257.9},
                              {2048, 12288, 262.2},
                              {4096, 12288, 277.5},
                              {8192, 12288, 286.9},
                              {16384, 12288, 290.5},
                              {8192, 1024, 185.2},
                              {8192, 2048, 243.8},
                              {8192, 4096, 269.2},
                              {8192, 8192, 277.6},
                              {8192, 16384, 293.0}}) {
    KernelWork work = product(1, one.rows, one.size, one.size);
    double measured = work.flops / (one.rate * 1e12) - 21e-6;
    EXPECT_NEAR(cost.seconds(work) / measured, 1, 0.12) << one.rows << " x " << one.size;
  }
}

// The same artifact: GELU moves 4 bytes an element at 380 and 390 G elements a second, with 45 us a call.
// cuDNN's attention of 64 heads of 128 (8 of keys), 8192 tokens, a causal mask, in TFLOP/s forward and backward
// (NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results, cuDNN 9.18 and 9.19): what an executor's shares
// and a kind's factor make of the peak.
TEST(KernelCostTest, AttentionWrittenForAChip) {
  struct Measured {
    llvm::StringRef preset;
    double forward, backward;
  };
  auto executor = findExecutor("megatron-core", "test");
  ASSERT_TRUE(bool(executor)) << llvm::toString(executor.takeError());
  ASSERT_TRUE(executor->tunesAttention);
  for (const Measured &one :
       {Measured{"h200", 644e12, 541e12}, Measured{"gb200", 1563e12, 1279e12}, Measured{"gb300", 1927e12, 1391e12}}) {
    OperatorCost cost(kindOf(one.preset), "bf16");
    double forward = cost.attentionFlops(executor->attentionForward, true),
           backward = cost.attentionFlops(executor->attentionBackward, true);
    // A gradient is five products, what is forward two.
    double predicted = 2 / forward + 5 / backward, measured = 2 / one.forward + 5 / one.backward;
    EXPECT_NEAR(predicted / measured, 1, 0.03) << one.preset.str();
    EXPECT_NEAR(forward / one.forward, 1, 0.15) << one.preset.str();
    EXPECT_NEAR(backward / one.backward, 1, 0.15) << one.preset.str();
  }
  // FlashAttention-2 on H100 (Dao 2023): 335 forward.
  OperatorCost h100(kindOf("h100"), "bf16");
  EXPECT_NEAR(h100.attentionFlops(executor->attentionForward, false) / 335e12, 1, 0.15);
  // Where nothing is said of other kernels, there are none.
  OperatorCost a100(kindOf("a100-80g"), "bf16");
  EXPECT_EQ(a100.attentionFlops(0.5, true), a100.attentionFlops(0.5, false));
}

TEST(KernelCostTest, MemoryOfA100) {
  OperatorCost cost(kindOf("a100-80g"), "f16");
  for (auto [elements, rate] : {std::pair(268e6, 380e9), {537e6, 390e9}})
    EXPECT_NEAR(cost.seconds(CostClass::Elementwise, 0, 4 * elements) / (elements / rate - 45e-6), 1, 0.06);
}

// VIA-Research, vTrain, tables of all-reduces over NVLink of a DGX A100: bus bandwidth in GB/s by MB.
TEST(KernelCostTest, AllReducesOfA100) {
  struct Measured {
    int64_t devices;
    double megabytes, rate;
  };
  auto machine = parsePreset("a100-80g");
  ASSERT_TRUE(bool(machine));
  const LinkSpec &link = *machine->hosts.front().link;
  for (const Measured &one : {Measured{8, 1, 20},
                              {8, 62, 193},
                              {8, 125, 202},
                              {8, 251, 210},
                              {8, 502, 223},
                              {8, 1005, 228},
                              {4, 1, 31},
                              {4, 62, 192},
                              {4, 125, 202},
                              {4, 502, 216},
                              {4, 1005, 222}}) {
    double bytes = one.megabytes * 1e6, count = static_cast<double>(one.devices);
    double measured = 2 * (count - 1) / count * bytes / (one.rate * 1e9);
    bool isSmall = one.megabytes < 4;
    EXPECT_NEAR(allReduceSeconds(bytes, {{one.devices, link}}) / measured, isSmall ? 0.8 : 0.98, isSmall ? 0.3 : 0.1)
        << one.devices << " devices, " << one.megabytes << " MB";
  }
}

// A collective that goes through two levels starts in both of them.
TEST(KernelCostTest, CollectivesStart) {
  LinkSpec link{1e9, 0, 0, 1e-3};
  EXPECT_DOUBLE_EQ(allReduceSeconds(0, {{4, link}}), 1e-3);
  EXPECT_DOUBLE_EQ(allGatherSeconds(0, {{4, link}}), 1e-3);
  EXPECT_DOUBLE_EQ(sendSeconds(0, link), 0);
}

} // namespace
