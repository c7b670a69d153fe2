// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which elements dropout drops: as many as it says, and the same however the graph or its batch is divided.

#include "test/passes/train/TrainingFormula.h"
#include "test/property/split/CheckCase.h"

#include "passes/train/Dropout.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;

namespace cleave::test {
namespace {

/// A dropout as it is in training: inputs x and the number of samples seen, outputs y and the next number.
OwningOpRef<ModuleOp> dropout(MLIRContext &context, const std::string &shape, double ratio, uint64_t seed = 0) {
  std::string type = "tensor<" + shape + "xf32>";
  OwningOpRef<ModuleOp> module =
      parseGraph(context, "dfg.graph @main(%x: " + type + ") -> " + type +
                              " {\n%y = dfg.dropout %x {ratio = " + std::to_string(ratio) + " : f64} : (" + type +
                              ") -> " + type + " loc(\"drop\"(\"Dropout\"))\n dfg.return %y : " + type + "\n}");
  expandDropout(graphOf(*module), seed);
  exposeState(graphOf(*module));
  return module;
}

std::vector<Tensor> drop(const std::string &text, const Shape &shape, double ratio, int64_t seen, uint64_t seed = 0) {
  auto context = createTestContext();
  return runGraphOf(*dropout(*context, text, ratio, seed),
                    {randomTensor("f32", shape, 1, 2), scalarOf("i64", static_cast<double>(seen))});
}

/// Which elements were dropped.
std::vector<bool> dropped(const Tensor &tensor) {
  std::vector<bool> result;
  for (double number : numbersOf(tensor))
    result.push_back(number == 0);
  return result;
}

int64_t count(const std::vector<bool> &bits) { return std::count(bits.begin(), bits.end(), true); }

// Of 12,000 elements within four standard deviations; what is kept is scaled so that the mean stays.
TEST(DropoutTraining, DropsAsManyAsItSays) {
  Tensor x = randomTensor("f32", {40, 300}, 1, 2);
  for (double ratio : {0.1, 0.5, 0.9}) {
    std::vector<Tensor> got = drop("40x300", {40, 300}, ratio, 0);
    EXPECT_NEAR(count(dropped(got[0])), 12000 * ratio, 4 * std::sqrt(12000 * ratio * (1 - ratio)));
    for (int64_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(got[0].real(i), got[0].real(i) == 0 ? 0 : x.real(i) / (1 - ratio), 1e-5);
    EXPECT_EQ(got[1].integer(0), 40);
  }
  EXPECT_EQ(count(dropped(drop("40x300", {40, 300}, 1, 0)[0])), 12000);
}

// Steps and seeds have masks of their own: two of them agree where chance has it.
TEST(DropoutTraining, DropsOthersInOtherStepsAndRuns) {
  std::vector<bool> first = dropped(drop("40x300", {40, 300}, 0.5, 0)[0]);
  EXPECT_EQ(first, dropped(drop("40x300", {40, 300}, 0.5, 0)[0]));
  for (const auto &other : {drop("40x300", {40, 300}, 0.5, 40), drop("40x300", {40, 300}, 0.5, 0, 1)}) {
    std::vector<bool> bits = dropped(other[0]);
    int64_t equal = 0;
    for (size_t i = 0; i < bits.size(); ++i)
      equal += bits[i] == first[i];
    EXPECT_NEAR(equal, 6000, 4 * std::sqrt(3000));
  }
}

// Two microbatches, one after the other, drop what the whole batch does.
TEST(DropoutTraining, DoesNotDependOnMicrobatches) {
  std::vector<bool> whole = dropped(drop("8x3x5", {8, 3, 5}, 0.5, 16)[0]), halves;
  for (int64_t seen : {16, 20})
    for (bool bit : dropped(drop("4x3x5", {4, 3, 5}, 0.5, seen)[0]))
      halves.push_back(bit);
  EXPECT_EQ(whole, halves);
}

TEST(DropoutTraining, SurvivesSplits) {
  uint64_t seed = 1;
  for (unsigned round = 0; round < 8; ++round) {
    auto context = createTestContext();
    OwningOpRef<ModuleOp> module = dropout(*context, "6x5x4", 0.5);
    fillInput(graphOf(*module), 0, 1, 2);
    fillInput(graphOf(*module), 1, 0, 1000);
    placeInRandomSplits(*module, seed++, /*onOneMesh=*/round % 2);
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    EXPECT_EQ(checkCase(*module, {/*optimized=*/round > 5}), "") << text;
  }
}

// Outside of training dropout is its input.
TEST(DropoutTraining, GoesWhereNothingIsTrained) {
  auto context = createTestContext();
  OwningOpRef<ModuleOp> module = parseGraph(*context, R"(dfg.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = dfg.dropout %x {ratio = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    dfg.return %y : tensor<4xf32>
  })");
  Tensor x = randomTensor("f32", {4}, 1, 2);
  EXPECT_EQ(numbersOf(runGraphOf(*module, {x})[0]), numbersOf(x));
  removeDropout(graphOf(*module));
  EXPECT_EQ(graphOf(*module).getBody().front().getOperations().size(), 1u);
}

} // namespace
} // namespace cleave::test
