// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels are expected to take on a GPU, by which codegen decides what shares one: a kernel that is bound by
// memory takes its launch and its bytes at the memory's rate.

#include "passes/codegen/GpuCost.h"
#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "passes/cost/Presets.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

class GpuCost : public testing::Test {
protected:
  GpuCost() {
    use("a100-40g");
    context.loadDialect<dfg::DfgDialect, dist::DistDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                        mlir::linalg::LinalgDialect, mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  }

  /// Asks of another GPU from now on.
  void use(const std::string &preset) {
    Machine machine = llvm::cantFail(parsePreset(preset));
    const DeviceKind &kind = machine.kinds.begin()->second;
    gpu = {kind.processors(), OperatorCost(kind, "f32")};
  }

  /// Of a kernel with the arguments `%a`, `%b`, … of these types, which yields `%r`.
  double seconds(const std::vector<std::string> &types, const std::string &result, const std::string &body) {
    std::string names, list, arguments;
    for (size_t index = 0; index != types.size(); ++index) {
      std::string separator = index ? ", " : "", name(1, static_cast<char>('a' + index));
      names += separator + "%o" + name;
      list += separator + types[index];
      arguments += separator + "%" + name + ": " + types[index];
    }
    std::string outer = arguments;
    for (size_t at = 0; (at = outer.find('%', at)) != std::string::npos; ++at)
      outer.insert(at + 1, "o");
    std::string text = "dist.mesh @gpu <[], devices = [0]>\ndist.program @p(" + outer + ") -> " + result +
                       " attributes {mesh = @gpu} {\n%f = dfg.fusion " + names + " : (" + list + ") -> " + result +
                       " {\n^bb0(" + arguments + "):\n" + body + "\ndfg.yield %r : " + result +
                       "\n}\ndist.return %f : " + result + "\n}\n";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    std::optional<double> estimate;
    if (module)
      module->walk([&](dfg::FusionOp fusion) { estimate = estimateSeconds(fusion.getBody(), gpu); });
    EXPECT_TRUE(estimate) << text;
    return estimate.value_or(0);
  }

  /// a + b of matrices.
  double sum(int64_t rows, int64_t columns) {
    std::string type = "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "xf32>";
    return seconds({type, type}, type, "%r = dfg.add %a, %b : (" + type + ", " + type + ") -> " + type);
  }

  /// Bytes a second of kernels that keep the memory busy: what twice as many rows take more.
  double rate() { return 3 * 4.0 * 4096 * 1024 / (sum(8192, 1024) - sum(4096, 1024)); }

  mlir::MLIRContext context;
  GpuModel gpu{1, OperatorCost(DeviceKind(), "f32")};
};

// An A100's memory gives 1555 GB/s at most (NVIDIA's data sheet), and kernels come near that.
TEST_F(GpuCost, LargeKernelsTakeTheirBytes) {
  EXPECT_LE(rate(), 1555e9);
  EXPECT_GE(rate(), 1000e9);
  EXPECT_NEAR((sum(16384, 1024) - sum(8192, 1024)) / (sum(8192, 1024) - sum(4096, 1024)), 2, 1e-9);
}

// Microseconds, not what the bytes take: why small kernels are fused.
TEST_F(GpuCost, EveryLaunchCosts) {
  double launch = 2 * sum(4096, 1024) - sum(8192, 1024);
  EXPECT_GE(launch, 1e-6);
  EXPECT_LE(launch, 10e-6);
}

// A row that is added to all rows is read once.
TEST_F(GpuCost, BroadcastOperandsAreReadOnce) {
  std::string matrix = "tensor<4096x1024xf32>", row = "tensor<1024xf32>";
  double one = seconds({matrix}, matrix, "%r = dfg.exp %a : (" + matrix + ") -> " + matrix);
  double both = seconds({matrix, row}, matrix, "%r = dfg.add %a, %b : (" + matrix + ", " + row + ") -> " + matrix);
  EXPECT_NEAR((both - one) * rate(), 1024 * 4, 1);
}

// What stays in registers is neither written nor read: a chain takes what one of its operators does.
TEST_F(GpuCost, WhatIsFusedIsNotMoved) {
  std::string matrix = "tensor<4096x1024xf32>", exp = " = dfg.exp ", type = " : (" + matrix + ") -> " + matrix + "\n";
  double one = seconds({matrix}, matrix, "%r" + exp + "%a" + type);
  double three =
      seconds({matrix}, matrix, "%0" + exp + "%a" + type + "%1" + exp + "%0" + type + "%r" + exp + "%1" + type);
  EXPECT_NEAR(three, one, one * 1e-9);
}

// A kernel of few threads does not keep the memory busy.
TEST_F(GpuCost, FewThreadsAreSlow) {
  double launch = 2 * sum(4096, 1024) - sum(8192, 1024);
  EXPECT_GE((sum(8, 1024) - launch) * rate(), 1.5 * 3 * 4 * 8 * 1024);
}

// NVIDIA's data sheets give an H100 3350 GB/s and a T4 320: what is bound by memory takes ten times as long.
TEST_F(GpuCost, RatesAreThoseOfTheMachine) {
  use("h100");
  double fast = rate();
  use("t4");
  EXPECT_NEAR(fast / rate(), 3350.0 / 320, 0.1 * 3350 / 320);
}

} // namespace
