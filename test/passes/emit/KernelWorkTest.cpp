// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The work of library kernels, counted by hand from their types.

#include "passes/schedule/KernelWork.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

struct Case {
  const char *kernel; ///< routine, attributes and type
  double flops, bytes;
  CostClass costClass;
};

// 2 operations for each multiplication with its addition, one for each post operation of an output element.
TEST(KernelWork, CountsLibraryRoutines) {
  const Case cases[] = {
      // 2 x 8 x 6 x 6 outputs of 3 x 3 x 3 products each.
      {R"("convolution" {} : (tensor<2x3x8x8xf32>, tensor<8x3x3x3xf32>, tensor<8xf32>) -> tensor<2x8x6x6xf32>)",
       2.0 * 576 * 27, 4.0 * (384 + 216 + 8 + 576), CostClass::Contraction},
      // Two groups: each output takes 2 x 3 x 3 products, whether the groups are a dimension or not.
      {R"("convolution" {groups = array<i64: 2>} : (tensor<1x4x5x5xf32>, tensor<2x3x2x3x3xf32>) -> tensor<1x6x3x3xf32>)",
       2.0 * 54 * 18, 4.0 * (100 + 108 + 54), CostClass::Contraction},
      {R"("convolution" {groups = array<i64: 2>} : (tensor<1x4x5x5xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x3x3xf32>)",
       2.0 * 54 * 18, 4.0 * (100 + 108 + 54), CostClass::Contraction},
      // Each of 1 x 4 x 5 x 5 inputs gives to 3 x 2 x 2 weights.
      {R"("deconvolution" {} : (tensor<1x4x5x5xf32>, tensor<4x3x2x2xf32>) -> tensor<1x3x6x6xf32>)", 2.0 * 100 * 12,
       4.0 * (100 + 48 + 108), CostClass::Contraction},
      // Each of 2 x 8 x 6 x 6 cotangents gives to the 3 x 3 x 3 weights of its channel; of 1 x 6 x 3 x 3 in two groups
      // to
      // 2 x 3 x 3.
      {R"("convolution_weights" {} : (tensor<2x3x8x8xf32>, tensor<2x8x6x6xf32>) -> tensor<8x3x3x3xf32>)",
       2.0 * 576 * 27, 4.0 * (384 + 576 + 216), CostClass::Contraction},
      {R"("convolution_weights" {groups = array<i64: 2>} : (tensor<1x4x5x5xf32>, tensor<1x6x3x3xf32>)
         -> tensor<2x3x2x3x3xf32>)",
       2.0 * 54 * 18, 4.0 * (100 + 54 + 108), CostClass::Contraction},
      // 10 rows, each times one of 3 matrices of 8 x 16, of which the device has all, or half of what there is.
      {R"("gather_matmul" {transposed = array<i64: 0>, total = array<i64: 3>} : (tensor<5x1x8xf32>, tensor<3x8x16xf32>,
         tensor<5x2xi64>) -> tensor<5x2x16xf32>)",
       2.0 * 10 * 128, 4.0 * (40 + 384 + 160) + 8.0 * 10, CostClass::Contraction},
      {R"("scatter_matmul" {total = array<i64: 6>} : (tensor<5x1x8xf32>, tensor<5x2x16xf32>, tensor<5x2xi64>)
         -> tensor<3x8x16xf32>)",
       10.0 * 128, 4.0 * (40 + 160 + 384) + 8.0 * 10, CostClass::Contraction},
      {R"("matmul" {} : (tensor<3x4x8xf32>, tensor<1x8x16xf32>) -> tensor<3x4x16xf32>)", 2.0 * 192 * 8,
       4.0 * (96 + 128 + 192), CostClass::Contraction},
      {R"("inner_product" {} : (tensor<2x3x4xf32>, tensor<5x3x4xf32>) -> tensor<2x5xf32>)", 2.0 * 2 * 60,
       4.0 * (24 + 60 + 10), CostClass::Contraction},
      {R"("pooling.max" {kernel = array<i64: 2, 2>} : (tensor<1x3x4x4xf32>) -> tensor<1x3x2x2xf32>)", 4.0 * 12,
       4.0 * (48 + 12), CostClass::Reduction},
      {R"("pooling_gradient.avg_include" {kernel = array<i64: 2, 2>} : (tensor<1x3x2x2xf32>) -> tensor<1x3x4x4xf32>)",
       4.0 * 12, 4.0 * (48 + 12), CostClass::Reduction},
      {R"("reorder" {} : (tensor<6x6xf32>) -> tensor<6x6xf32>)", 0, 4.0 * 72, CostClass::Movement},
      {R"("eltwise.tanh" {} : (tensor<6x6xf32>) -> tensor<6x6xf32>)", 36, 4.0 * 72, CostClass::Elementwise},
  };
  MLIRContext context;
  context.loadDialect<dfg::DfgDialect, plan::PlanDialect>();
  for (const Case &c : cases) {
    auto module = parseSourceString<ModuleOp>(std::string("plan.library_kernel @k \"onednn\" ") + c.kernel, &context);
    ASSERT_TRUE(module) << c.kernel;
    OpCost work = getKernelWork(*module->getOps<plan::LibraryKernelOp>().begin());
    EXPECT_EQ(work.flops, c.flops) << c.kernel;
    EXPECT_EQ(work.bytesRead + work.bytesWritten, c.bytes) << c.kernel;
    EXPECT_EQ(work.costClass, c.costClass) << c.kernel;
  }
}

} // namespace
} // namespace cleave
