// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Batch normalization in training as machine code against PyTorch, and divided over devices against one device.

#include "test/passes/train/TrainingFormula.h"
#include "test/property/split/CheckCase.h"

#include "passes/train/BatchNormTraining.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace cleave::test {
namespace {

constexpr unsigned numBatches = 3;

/// A graph of one batch normalization of 8x3x4x5, as it is in training: inputs x, scale, bias and both running
/// statistics, outputs y and both statistics.
OwningOpRef<ModuleOp> batchNorm(MLIRContext &context, int64_t groups) {
  std::string text;
  for (StringRef name : {"scale", "bias", "mean", "variance"})
    text += ("dfg.parameter @" + name + " : tensor<3xf32> = #dfg.fill<value = 0.0 : f64>\n").str();
  text += "dfg.graph @main(%x: tensor<8x3x4x5xf32>) -> tensor<8x3x4x5xf32> {\n";
  for (StringRef name : {"scale", "bias", "mean", "variance"})
    text += ("%" + name + " = dfg.read @" + name + " : tensor<3xf32>\n").str();
  text += R"(
    %y = dfg.batch_norm %x, %scale, %bias, %mean, %variance {epsilon = 1.0e-5 : f64, momentum = 0.7 : f64}
       : (tensor<8x3x4x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<8x3x4x5xf32>
    dfg.return %y : tensor<8x3x4x5xf32>
  })";
  OwningOpRef<ModuleOp> module = parseGraph(context, text);
  normalizeByBatch(graphOf(*module), [&](dfg::BatchNormOp) { return groups; });
  exposeState(graphOf(*module));
  return module;
}

/// Elements far from zero: a variance computed in one pass would lose its digits.
Tensor batch(uint64_t seed) { return randomTensor("f32", {8, 3, 4, 5}, 90, 110, seed); }

void expectLikeTorch(int64_t groups) {
  auto context = createTestContext();
  OwningOpRef<ModuleOp> module = batchNorm(*context, groups);
  std::vector<Tensor> inputs = {batch(1), randomTensor("f32", {3}, 0.5, 2, 5), randomTensor("f32", {3}, -1, 1, 6),
                                randomTensor("f32", {3}, -1, 1, 7), randomTensor("f32", {3}, 1, 2, 8)};
  llvm::json::Array batches;
  for (unsigned i = 0; i < numBatches; ++i)
    batches.push_back(toJson(batch(i)));
  auto answers = askTorch(llvm::json::Array{llvm::json::Object{{"shape", llvm::json::Array{8, 3, 4, 5}},
                                                               {"batches", std::move(batches)},
                                                               {"groups", groups},
                                                               {"scale", toJson(inputs[1])},
                                                               {"bias", toJson(inputs[2])},
                                                               {"mean", toJson(inputs[3])},
                                                               {"variance", toJson(inputs[4])},
                                                               {"momentum", 1 - 0.7},
                                                               {"epsilon", 1e-5}}});
  if (!answers)
    GTEST_SKIP() << "no PyTorch for " << CLEAVE_PYTHON;
  const llvm::json::Object &want = *answers->front().getAsObject();
  for (unsigned i = 0; i < numBatches; ++i) {
    SCOPED_TRACE(i);
    inputs[0] = batch(i);
    std::vector<Tensor> got = runGraphOf(*module, inputs);
    ASSERT_EQ(got.size(), 3u);
    expectNumbers(got[0], *(*want.getArray("outputs"))[i].getAsArray(), 1e-4);
    expectNumbers(got[1], *(*want.getArray("means"))[i].getAsArray(), 1e-4);
    expectNumbers(got[2], *(*want.getArray("variances"))[i].getAsArray(), 1e-4);
    inputs[3] = got[1];
    inputs[4] = got[2];
  }
}

TEST(BatchNormTraining, IsPyTorchs) { expectLikeTorch(1); }

// Groups are normalized by themselves, as replicas in PyTorch are.
TEST(BatchNormTraining, NormalizesGroupsByThemselves) { expectLikeTorch(4); }

TEST(BatchNormTraining, SurvivesSplits) {
  uint64_t seed = 1;
  for (int64_t groups : {1, 4})
    for (unsigned round = 0; round < 8; ++round) {
      auto context = createTestContext();
      OwningOpRef<ModuleOp> module = batchNorm(*context, groups);
      fillInput(graphOf(*module), 4, 0.5, 2);
      placeInRandomSplits(*module, seed++, /*onOneMesh=*/round % 2);
      std::string text;
      llvm::raw_string_ostream(text) << *module;
      EXPECT_EQ(checkCase(*module, {/*optimized=*/round > 5}), "") << text;
    }
}

} // namespace
} // namespace cleave::test
