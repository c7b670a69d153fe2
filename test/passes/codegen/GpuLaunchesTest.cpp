// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What shares a launch on a GPU, what is computed twice, and which launches run at the same time. Numbers are the same
// either way, so that no test of kernels' results sees it.

#include "passes/codegen/GpuLaunches.h"
#include "dialects/dfg/Dfg.h"
#include "passes/codegen/GpuOperators.h"
#include "passes/codegen/GpuRowSums.h"
#include "passes/codegen/NativeFusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

class GpuLaunches : public testing::Test {
protected:
  GpuLaunches() {
    context.loadDialect<dfg::DfgDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                        mlir::linalg::LinalgDialect, mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  }

  /// Plans the body of the one fusion in the text of a graph; an A100 has 108 multiprocessors.
  const GpuKernelPlan &plan(const std::string &text, int64_t processors = 108) {
    source = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    tensors = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    if (source)
      source->walk([&](dfg::FusionOp fusion) {
        auto function = lowerToFunction(*tensors, "kernel", fusion.getBody(), lowerGpuOperator);
        if (failed(function))
          return;
        fuseLinalgOperations(*function);
        divideSumsByRows(*function);
        mlir::Block &block = function->getBody().front();
        made = planLaunches(block, Storage(block), processors, /*plain=*/false);
      });
    EXPECT_FALSE(made.launches.empty()) << text;
    return made;
  }

  /// A softmax over rows too long for registers, of what `body` makes of %a, %b and %c as %0.
  const GpuKernelPlan &planSoftmax(const std::string &types, const std::string &arguments, const std::string &outer,
                                   const std::string &body) {
    const std::string rows = "tensor<2x40000xf32>";
    return plan("dfg.graph @main(" + outer + ") -> " + rows + " {\n%f = dfg.fusion %x, %y, %z : (" + types + ") -> " +
                rows + " {\n^bb0(" + arguments + "):\n" + body + "\n%1 = dfg.softmax %0 {dim = 1 : i64} : (" + rows +
                ") -> " + rows + "\ndfg.yield %1 : " + rows + "\n}\ndfg.return %f : " + rows + "\n}\n");
  }

  size_t countSteps(const GpuLaunch &launch, GpuStep::Kind kind) const {
    return llvm::count_if(launch.steps, [&](const GpuStep &step) { return step.kind == kind; });
  }

  size_t repeatedSteps() const {
    size_t count = 0;
    for (const GpuLaunch &launch : made.launches)
      count += llvm::count_if(launch.steps, [](const GpuStep &step) { return step.isRepeated; });
    return count;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> source, tensors;
  GpuKernelPlan made;
};

// To write a value of four bytes and to read it moves eight: as much as two operands that are read again.
TEST_F(GpuLaunches, ComputeAgainWhatReadsNoMore) {
  planSoftmax("tensor<2x40000xf32>, tensor<2x40000xf32>, tensor<2x1xf32>",
              "%a: tensor<2x40000xf32>, %b: tensor<2x40000xf32>, %c: tensor<2x1xf32>",
              "%x: tensor<2x40000xf32>, %y: tensor<2x40000xf32>, %z: tensor<2x1xf32>",
              // What all of a row share is read once, and not again for every element.
              "%p = dfg.mul %a, %b : (tensor<2x40000xf32>, tensor<2x40000xf32>) -> tensor<2x40000xf32>\n"
              "%0 = dfg.sub %p, %c : (tensor<2x40000xf32>, tensor<2x1xf32>) -> tensor<2x40000xf32>");
  EXPECT_GT(repeatedSteps(), 0u);
  EXPECT_LT(made.scratchBytes, 2u * 40000 * 4);
}

TEST_F(GpuLaunches, KeepWhatReadsMore) {
  const std::string rows = "tensor<2x40000xf32>", three = rows + ", " + rows + ", " + rows;
  planSoftmax(three, "%a: " + rows + ", %b: " + rows + ", %c: " + rows,
              "%x: " + rows + ", %y: " + rows + ", %z: " + rows,
              "%p = dfg.mul %a, %b : (" + rows + ", " + rows + ") -> " + rows + "\n%0 = dfg.mul %p, %c : (" + rows +
                  ", " + rows + ") -> " + rows);
  EXPECT_EQ(repeatedSteps(), 0u);
  EXPECT_GE(made.scratchBytes, 2u * 40000 * 4);
}

// Rows that no vector divides are read in vectors, too; those that stay in registers need not be.
TEST_F(GpuLaunches, ReadRaggedRowsInVectors) {
  for (auto [length, isRagged] : {std::pair(40001, true), std::pair(40000, false), std::pair(4001, false)}) {
    std::string rows = "tensor<512x" + std::to_string(length) + "xbf16>";
    plan("dfg.graph @main(%x: " + rows + ") -> " + rows + " {\n%f = dfg.fusion %x : (" + rows + ") -> " + rows +
         " {\n^bb0(%a: " + rows + "):\n%0 = dfg.softmax %a {dim = 1 : i64} : (" + rows + ") -> " + rows +
         "\ndfg.yield %0 : " + rows + "\n}\ndfg.return %f : " + rows + "\n}\n");
    ASSERT_EQ(made.launches.size(), 1u);
    EXPECT_EQ(made.launches[0].ragged.has_value(), isRagged) << length;
    EXPECT_EQ(made.launches[0].width, length % 4 == 0 || isRagged ? 4 : 1) << length;
    // Of long rows, a block's threads wait at the end of each phase, while those of another load.
    EXPECT_EQ(made.launches[0].lanes == 512, length > 32 * 1024) << length;
  }
}

// Both read the same and write something else; the second has its own iterations, of which no block may be missing:
// seven rows of a column are divided among blocks.
TEST_F(GpuLaunches, RunBesideOthersWithAllTheirBlocks) {
  plan(R"(
dfg.graph @main(%x: tensor<3000xf32>, %y: tensor<7x3000xf32>) -> (tensor<1000xf32>, tensor<7x3000xf32>) {
  %f:2 = dfg.fusion %x, %y : (tensor<3000xf32>, tensor<7x3000xf32>) -> (tensor<1000xf32>, tensor<7x3000xf32>) {
  ^bb0(%a: tensor<3000xf32>, %b: tensor<7x3000xf32>):
    %0 = dfg.slice %a {limits = array<i64: 1000>, starts = array<i64: 0>, strides = array<i64: 1>} : (tensor<3000xf32>) -> tensor<1000xf32>
    %1 = dfg.neg %0 : (tensor<1000xf32>) -> tensor<1000xf32>
    %2 = dfg.exp %a : (tensor<3000xf32>) -> tensor<3000xf32>
    %3 = dfg.mul %b, %2 : (tensor<7x3000xf32>, tensor<3000xf32>) -> tensor<7x3000xf32>
    dfg.yield %1, %3 : tensor<1000xf32>, tensor<7x3000xf32>
  }
  dfg.return %f#0, %f#1 : tensor<1000xf32>, tensor<7x3000xf32>
}
)");
  ASSERT_EQ(made.launches.size(), 2u);
  EXPECT_FALSE(made.launches[0].isBeside);
  EXPECT_TRUE(made.launches[1].isBeside);
  EXPECT_GT(made.launches[1].splits, 1);
  for (const GpuLaunch &launch : made.launches)
    EXPECT_GE(launch.blocks * launch.groups, launch.outerUnits() * launch.splits);
}

// A sum over each of four rows is divided among as many blocks as keep the GPU's processors busy: on one with
// more processors it has more of them.
TEST_F(GpuLaunches, DivideSumsByProcessors) {
  const std::string text = R"(
dfg.graph @main(%x: tensor<4x4000000xf32>) -> tensor<4xf32> {
  %f = dfg.fusion %x : (tensor<4x4000000xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4x4000000xf32>):
    %0 = dfg.reduce %a {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<4x4000000xf32>) -> tensor<4xf32>
    dfg.yield %0 : tensor<4xf32>
  }
  dfg.return %f : tensor<4xf32>
}
)";
  for (int64_t processors : {20, 40, 132}) {
    int64_t blocks = plan(text, processors).launches.front().blocks;
    EXPECT_GE(blocks, processors) << processors;
    EXPECT_LE(blocks, 8 * processors) << processors;
  }
}

// Rows are joined three times, once by what follows a sum of columns, which waits for a launch of its own.
TEST_F(GpuLaunches, JoinPastWhatHasToWait) {
  plan(R"(
dfg.graph @main(%x: tensor<4096x512xf32>) -> (tensor<512xf32>, tensor<4096x512xf32>) {
  %f:2 = dfg.fusion %x : (tensor<4096x512xf32>) -> (tensor<512xf32>, tensor<4096x512xf32>) {
  ^bb0(%a: tensor<4096x512xf32>):
    %0 = dfg.softmax %a {dim = 1 : i64} : (tensor<4096x512xf32>) -> tensor<4096x512xf32>
    %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<4096x512xf32>) -> tensor<512xf32>
    %2 = dfg.reduce %0 {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>, keep_dims} : (tensor<4096x512xf32>) -> tensor<4096x1xf32>
    %3 = dfg.mul %0, %2 : (tensor<4096x512xf32>, tensor<4096x1xf32>) -> tensor<4096x512xf32>
    dfg.yield %1, %3 : tensor<512xf32>, tensor<4096x512xf32>
  }
  dfg.return %f#0, %f#1 : tensor<512xf32>, tensor<4096x512xf32>
}
)");
  EXPECT_EQ(countSteps(made.launches.front(), GpuStep::Join), 3u);
  EXPECT_TRUE(made.launches.front().unrolled);
}

// A loss and its gradient: the logits' logarithms are summed row by row where they are made, and which of them counts
// is found once more where the gradient needs it. Nothing of a row's length goes through memory between.
TEST_F(GpuLaunches, SumRowsWhereTheyAreMade) {
  plan(R"(
dfg.graph @main(%x: tensor<512x40001xf32>, %y: tensor<512x1xi64>) -> (tensor<f32>, tensor<512x40001xf32>) {
  %f:2 = dfg.fusion %x, %y : (tensor<512x40001xf32>, tensor<512x1xi64>) -> (tensor<f32>, tensor<512x40001xf32>) {
  ^bb0(%a: tensor<512x40001xf32>, %b: tensor<512x1xi64>):
    %zero = dfg.constant dense<0.0> : tensor<f32>
    %one = dfg.constant dense<1.0> : tensor<512x40001xf32>
    %0 = dfg.log_softmax %a {dim = 1 : i64} : (tensor<512x40001xf32>) -> tensor<512x40001xf32>
    %1 = dfg.iota {dim = 1 : i64} : () -> tensor<1x40001xi64>
    %2 = dfg.compare %1, %b {comparison = #dfg.comparison<equal>} : (tensor<1x40001xi64>, tensor<512x1xi64>) -> tensor<512x40001xi1>
    %3 = dfg.select %2, %0, %zero : (tensor<512x40001xi1>, tensor<512x40001xf32>, tensor<f32>) -> tensor<512x40001xf32>
    %4 = dfg.reduce %3 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<512x40001xf32>) -> tensor<f32>
    %5 = dfg.select %2, %one, %zero : (tensor<512x40001xi1>, tensor<512x40001xf32>, tensor<f32>) -> tensor<512x40001xf32>
    %6 = dfg.reduce %5 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims} : (tensor<512x40001xf32>) -> tensor<512x1xf32>
    %7 = dfg.exp %0 : (tensor<512x40001xf32>) -> tensor<512x40001xf32>
    %8 = dfg.mul %7, %6 : (tensor<512x40001xf32>, tensor<512x1xf32>) -> tensor<512x40001xf32>
    %9 = dfg.sub %5, %8 : (tensor<512x40001xf32>, tensor<512x40001xf32>) -> tensor<512x40001xf32>
    dfg.yield %4, %9 : tensor<f32>, tensor<512x40001xf32>
  }
  dfg.return %f#0, %f#1 : tensor<f32>, tensor<512x40001xf32>
}
)");
  ASSERT_EQ(made.launches.size(), 2u);
  EXPECT_EQ(countSteps(made.launches[0], GpuStep::Join), 4u);
  EXPECT_LE(made.scratchBytes, 512u * 4);
}

} // namespace
