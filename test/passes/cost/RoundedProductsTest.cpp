// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What products cost when they are rounded to TF32, from the numbers of data sheets: time = launch + operations / (rate
// * share).

#include "passes/cost/RoundedProducts.h"
#include "passes/cost/OperatorCost.h"
#include "passes/cost/PlanCost.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

constexpr double teraflop = 1e12, launch = 4e-6;

Machine roundingMachine(llvm::StringRef text) {
  auto machine = parseMachine(text);
  EXPECT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
  return machine ? std::move(*machine) : Machine();
}

OperatorCost costOn(const Machine &machine, llvm::StringRef type) { return {deviceKindOf(machine, 0), type}; }

/// A product of so many operations in memory that costs nothing.
runtime::Kernel productOf(runtime::ElementType element, runtime::ElementType result, bool tf32) {
  runtime::LibraryKernel library;
  library.library = "cublaslt";
  library.operation = "matmul";
  if (tf32)
    library.attributes.push_back({"tf32", {1}, {}});
  runtime::Kernel kernel;
  kernel.inputs = {{element, {8, 8}, {}}, {element, {8, 8}, {}}};
  kernel.outputs = {{result, {8, 8}, {}}};
  kernel.body = library;
  kernel.flops = teraflop;
  kernel.costClass = runtime::CostClass::Contraction;
  return kernel;
}

double secondsOf(const PlanCost &cost, const runtime::Kernel &kernel) { return cost.seconds(0, {nullptr, &kernel, 1}); }

// The search: a product of 1 Tflop reaches 0.75 of 67 Tflop/s in float32 and 0.76 of 494.7 in TF32 on an H100, 0.92
// of 19.5 and 0.805 of 156 on an A100; bfloat16 and what reads memory do not change.
TEST(RoundedProducts, HaveTheirOwnRateInTheSearch) {
  struct Sheet {
    llvm::StringRef machine;
    double exact, rounded;
  };
  for (const Sheet &sheet : {Sheet{"cuda:h100:1", 67e12 * 0.75, 494.7e12 * 0.76},
                             Sheet{"cuda:a100-80g:1", 19.5e12 * 0.92, 156e12 * 0.805}}) {
    Machine exact = roundingMachine(sheet.machine), rounded = withRoundedProducts(exact);
    auto seconds = [](const OperatorCost &cost) { return cost.seconds(CostClass::Contraction, teraflop, 1); };
    EXPECT_NEAR(seconds(costOn(exact, "f32")), launch + teraflop / sheet.exact, 1e-12);
    EXPECT_NEAR(seconds(costOn(rounded, "f32")), launch + teraflop / sheet.rounded, 1e-12);
    EXPECT_EQ(seconds(costOn(rounded, "bf16")), seconds(costOn(exact, "bf16")));
    for (CostClass other : {CostClass::Elementwise, CostClass::Reduction, CostClass::Movement})
      EXPECT_EQ(costOn(rounded, "f32").seconds(other, 1e9, 1e9), costOn(exact, "f32").seconds(other, 1e9, 1e9));
  }
}

// Only GPUs have a library that rounds, simulated ones, too; a kind that says nothing of TF32 keeps float32's rate.
TEST(RoundedProducts, NeedGpusThatSaySo) {
  for (llvm::StringRef rounded : {"cuda:h100:1", "h100:1"}) {
    EXPECT_TRUE(canRoundProducts(roundingMachine(rounded))) << rounded.str();
    // An H100 has 494.7 instead of 67 Tflop/s.
    EXPECT_EQ(withRoundedProducts(roundingMachine(rounded)).kinds.at("h100").peak.at("f32"), 494.7e12);
  }
  for (llvm::StringRef exact : {"host:1x1", "null:2"}) {
    Machine machine = roundingMachine(exact);
    EXPECT_FALSE(canRoundProducts(machine)) << exact.str();
    EXPECT_EQ(withRoundedProducts(machine).kinds, machine.kinds) << exact.str();
  }
  Machine silent = roundingMachine("cuda:h100:1");
  silent.kinds.begin()->second.peak.erase("tf32");
  EXPECT_EQ(withRoundedProducts(silent).kinds, silent.kinds);
}

// Predictions of plans: by what each kernel multiplies, whatever the machine was compiled for. Sums of bfloat16 that
// are given in float32 are products of bfloat16.
TEST(RoundedProducts, HaveTheirOwnRateInPlans) {
  using runtime::ElementType;
  PlanCost cost(roundingMachine("cuda:h100:1"));
  EXPECT_NEAR(secondsOf(cost, productOf(ElementType::F32, ElementType::F32, false)), launch + teraflop / (67e12 * 0.75),
              1e-12);
  EXPECT_NEAR(secondsOf(cost, productOf(ElementType::F32, ElementType::F32, true)),
              launch + teraflop / (494.7e12 * 0.76), 1e-12);
  for (ElementType result : {ElementType::BF16, ElementType::F32})
    EXPECT_NEAR(secondsOf(cost, productOf(ElementType::BF16, result, false)), launch + teraflop / (989.4e12 * 0.76),
                1e-12);
}

// A kernel of a GPU that needs three launches pays for three.
TEST(PlanCost, CountsLaunches) {
  PlanCost cost(roundingMachine("cuda:h100:1"));
  runtime::Kernel kernel;
  runtime::GpuKernel body;
  body.launches.resize(1);
  kernel.body = body;
  double once = secondsOf(cost, kernel);
  body.launches.resize(3);
  kernel.body = body;
  EXPECT_NEAR(secondsOf(cost, kernel), once + 2 * launch, 1e-12);
}

} // namespace
