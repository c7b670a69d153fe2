// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Batch normalization and dropout of a placed graph: places of what they become in training.

#include "test/passes/train/TrainingFormula.h"
#include "test/property/split/CheckCase.h"
#include "test/property/split/Placements.h"

#include "passes/train/TrainingOperators.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace cleave::test {
namespace {

/// A batch normalization and a dropout on a mesh of "data" by "model". "data" cuts the samples, "model" the channels
/// where it is said to.
OwningOpRef<ModuleOp> placedGraph(MLIRContext &context, bool cutsChannels = false, const std::string &data = "2") {
  std::string text = "dist.mesh @grid <[\"data\" = " + data + ", \"model\" = 2], devices = [0, 1, 2, 3]>\n";
  for (StringRef name : {"scale", "bias", "mean", "variance"})
    text += ("dfg.parameter @" + name + " : tensor<4xf32> = #dfg.fill<value = 1.0 : f64>\n").str();
  text += "dfg.graph @main(%x: tensor<8x4x3xf32>) -> tensor<8x4x3xf32> {\n";
  for (StringRef name : {"scale", "bias", "mean", "variance"})
    text += ("%" + name + " = dfg.read @" + name + " : tensor<4xf32>\n").str();
  auto place = [&](const std::string &channel) {
    return "dist.place = #dist.place<@grid, by = \"test\", split = <{d0 = [\"data\"]" +
           (cutsChannels ? ", " + channel + " = [\"model\"]" : "") + "}>>}";
  };
  text += "%0 = dfg.batch_norm %x, %scale, %bias, %mean, %variance {epsilon = 1.0e-5 : f64, " + place("channel") + R"(
       : (tensor<8x4x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<8x4x3xf32>
    %1 = dfg.dropout %0 {ratio = 0.5 : f64, )" +
          place("d1") + R"( : (tensor<8x4x3xf32>) -> tensor<8x4x3xf32>
    dfg.return %1 : tensor<8x4x3xf32>
  })";
  OwningOpRef<ModuleOp> module = parseGraph(context, text);
  if (module)
    addDevices(*module, 4);
  return module;
}

int64_t countReductionsOfParts(dfg::GraphOp graph, StringRef axis) {
  int64_t count = 0;
  graph.walk([&](dfg::ReduceOp reduce) {
    dist::SplitAttr split = dist::getPlace(reduce).getSplit();
    SplitRule rule = reduce.getSplitRule();
    for (const Factor &factor : rule.factors)
      if (split && factor.kind == FactorKind::Reduction)
        if (auto axes = split.getFactors().getAs<ArrayAttr>(factor.name))
          count += llvm::is_contained(axes.getAsRange<StringAttr>(), axis);
  });
  return count;
}

/// All operators have places, and the graph computes the same as on one device.
void expectSame(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  for (Operation &op : graphOf(module).getBody().front().without_terminator())
    EXPECT_EQ(static_cast<bool>(dist::getPlace(&op)), isPlaced(&op)) << text;
  exposeState(graphOf(module));
  fillInput(graphOf(module), 4, 0.5, 2);
  EXPECT_EQ(checkCase(module, {/*optimized=*/false}), "") << text;
}

// Each part of the batch is normalized by itself: only the running statistics, one a channel, are summed over "data".
TEST(TrainingOperators, TakeStatisticsOfPartsByThemselves) {
  auto context = createTestContext();
  OwningOpRef<ModuleOp> module = placedGraph(*context);
  ASSERT_TRUE(succeeded(replaceTrainingOperators(graphOf(*module), {})));
  EXPECT_EQ(countReductionsOfParts(graphOf(*module), "data"), 2);
  graphOf(*module).walk([](dfg::ReduceOp reduce) {
    if (reduce.getDims() == ArrayRef<int64_t>{0}) {
      EXPECT_EQ(cast<RankedTensorType>(reduce.getInput().getType()).getNumElements(), 8);
    }
  });
  expectSame(*module);
}

// One group: both statistics are summed over "data".
TEST(TrainingOperators, TakeStatisticsOfTheBatchWhereAskedTo) {
  auto context = createTestContext();
  OwningOpRef<ModuleOp> module = placedGraph(*context);
  ASSERT_TRUE(succeeded(replaceTrainingOperators(graphOf(*module), {BatchStatistics::Synchronized})));
  EXPECT_EQ(countReductionsOfParts(graphOf(*module), "data"), 2);
  graphOf(*module).walk(
      [](dfg::ReshapeOp reshape) { EXPECT_LT(cast<RankedTensorType>(reshape.getType()).getRank(), 4); });
  expectSame(*module);
}

// Groups are of equal size, and parts may not be: there is one group, as where it is asked for.
TEST(TrainingOperators, TakeStatisticsOfTheBatchWherePartsAreUnequal) {
  auto context = createTestContext();
  OwningOpRef<ModuleOp> module = placedGraph(*context, /*cutsChannels=*/false, "[3, 1]"), all = placedGraph(*context);
  std::vector<int64_t> groups;
  ASSERT_TRUE(succeeded(replaceTrainingOperators(graphOf(*module), {}, &groups)));
  EXPECT_EQ(groups, std::vector<int64_t>{1});
  ASSERT_TRUE(succeeded(replaceTrainingOperators(graphOf(*all), {BatchStatistics::Synchronized})));
  EXPECT_EQ(llvm::range_size(graphOf(*module).getBody().front()), llvm::range_size(graphOf(*all).getBody().front()));
}

// What was found of one plan can be asked of another: four parts of the batch, on whatever devices there are.
TEST(TrainingOperators, TakeStatisticsOfSoManyPartsAsAskedTo) {
  auto context = createTestContext();
  OwningOpRef<ModuleOp> module = placedGraph(*context);
  std::vector<int64_t> groups;
  ASSERT_TRUE(succeeded(replaceTrainingOperators(graphOf(*module), {}, &groups)));
  EXPECT_EQ(groups, std::vector<int64_t>{2});
  module = placedGraph(*context);
  TrainingOperatorOptions options;
  options.groups = {4};
  groups.clear();
  ASSERT_TRUE(succeeded(replaceTrainingOperators(graphOf(*module), options, &groups)));
  EXPECT_EQ(groups, options.groups);
  EXPECT_TRUE(llvm::any_of(graphOf(*module).getOps<dfg::ReshapeOp>(), [](dfg::ReshapeOp reshape) {
    return cast<RankedTensorType>(reshape.getType()).getDimSize(0) == 4;
  }));
}

// Nothing changes where the running statistics count and nothing is dropped.
TEST(TrainingOperators, StayAsTheyAreWhereAskedTo) {
  auto context = createTestContext();
  OwningOpRef<ModuleOp> module = placedGraph(*context);
  ASSERT_TRUE(
      succeeded(replaceTrainingOperators(graphOf(*module), {*findStatistics("running"), /*drops=*/false, /*seed=*/0})));
  EXPECT_TRUE(llvm::hasSingleElement(graphOf(*module).getOps<dfg::BatchNormOp>()));
  EXPECT_TRUE(graphOf(*module).getOps<dfg::WriteOp>().empty());
  EXPECT_TRUE(graphOf(*module).getOps<dfg::DropoutOp>().empty());
}

// Every device draws the numbers of its own elements.
TEST(TrainingOperators, DrawNumbersOfPartsByThemselves) {
  auto context = createTestContext();
  OwningOpRef<ModuleOp> module = placedGraph(*context, /*cutsChannels=*/true);
  ASSERT_TRUE(succeeded(replaceTrainingOperators(graphOf(*module), {})));
  graphOf(*module).walk([](dfg::RandomOp random) {
    dist::SplitAttr split = dist::getPlace(random).getSplit();
    ASSERT_TRUE(split);
    EXPECT_EQ(split.getFactors().size(), 2u);
  });
  expectSame(*module);
}

} // namespace
} // namespace cleave::test
