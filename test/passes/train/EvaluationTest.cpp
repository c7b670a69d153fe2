// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Forward graphs of a model that is placed already, for other numbers of samples.

#include "passes/train/Evaluation.h"

#include "dialects/dist/Dist.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace cleave::test {
namespace {

// An operator of more or fewer samples is cut as the one that is placed, and stays whole where that does.
TEST(PlaceLike, CutsOtherSizesAlike) {
  MLIRContext context;
  context.loadDialect<dfg::DfgDialect, dist::DistDialect>();
  auto module = parseSourceString<ModuleOp>(R"(
dist.mesh @pair <["d" = 2], devices = [0, 1]>
dfg.graph @step(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = dfg.exp %x {dist.place = #dist.place<@pair, by = "test", split = <{d0 = ["d"]}>>}
      : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("exp")
  %1 = dfg.neg %0 {dist.place = #dist.place<@pair, by = "test">} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("neg")
  dfg.return %1 : tensor<8x4xf32>
}
dfg.graph @evaluation(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = dfg.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("exp")
  %1 = dfg.neg %0 : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("neg")
  dfg.return %1 : tensor<2x4xf32>
}
)",
                                            &context);
  ASSERT_TRUE(module);
  auto step = module->lookupSymbol<dfg::GraphOp>("step"), evaluation = module->lookupSymbol<dfg::GraphOp>("evaluation");
  ASSERT_TRUE(succeeded(placeLike(evaluation, step)));
  for (auto [placed, like] :
       llvm::zip_equal(step.getBody().front().without_terminator(), evaluation.getBody().front().without_terminator()))
    EXPECT_EQ(dist::getPlace(&placed), dist::getPlace(&like)) << placed.getName().getStringRef().str();
}

} // namespace
} // namespace cleave::test
