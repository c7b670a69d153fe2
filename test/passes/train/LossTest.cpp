// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses as machine code against loops, and divided over devices against one device.

#include "test/passes/train/TrainingFormula.h"
#include "test/property/split/CheckCase.h"

#include "passes/train/Loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;

namespace cleave::test {
namespace {

using testing::HasSubstr;

/// A model of one operator (or none) with a loss.
class LossCase {
public:
  /// `body` computes %y of `output` from the input %x of `input`.
  LossCase(const std::string &input, const std::string &output, const std::string &body, StringRef loss)
      : context(createTestContext()) {
    std::string text = "dfg.graph @main(%x: " + input + " {dfg.name = \"x\"}) -> (" + output +
                       " {dfg.name = \"y\"}) {\n" + body + "\n dfg.return %" + (body.empty() ? "x" : "y") + " : " +
                       output + "\n}";
    module = parseGraph(*context, text);
    auto options = parseLoss(loss);
    EXPECT_TRUE(static_cast<bool>(options));
    EXPECT_TRUE(succeeded(addLoss(graph(), *options)));
  }

  ModuleOp get() const { return module.get(); }
  dfg::GraphOp graph() const { return graphOf(get()); }
  std::vector<Tensor> run(const std::vector<Tensor> &inputs) const { return runGraphOf(get(), inputs); }

private:
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
};

struct LossAndCount {
  double loss = 0;
  int64_t correct = 0;
};

/// By the definition, in f64: the mean of -log softmax at the labels, and how often the first largest score is at the
/// label.
LossAndCount crossEntropy(const Tensor &scores, size_t classDim, const Tensor &labels) {
  LossAndCount result;
  Shape flat = scores.getShape();
  int64_t classes = flat[classDim];
  flat.erase(flat.begin() + static_cast<int64_t>(classDim));
  forEachIndex(flat, [&](const Shape &index) {
    std::vector<double> line;
    for (int64_t c = 0; c < classes; ++c) {
      Shape full = index;
      full.insert(full.begin() + static_cast<int64_t>(classDim), c);
      line.push_back(scores.real(full));
    }
    auto largest = std::max_element(line.begin(), line.end());
    double sum = 0;
    for (double score : line)
      sum += std::exp(score - *largest);
    int64_t label = labels.integer(index);
    if (label >= 0 && label < classes)
      result.loss -= line[label] - *largest - std::log(sum);
    result.correct += largest - line.begin() == label;
  });
  result.loss /= static_cast<double>(elementsOf(flat));
  return result;
}

void expectCrossEntropy(const LossCase &lossCase, const Tensor &scores, size_t classDim, const Tensor &labels,
                        double tolerance = 1e-6) {
  std::vector<Tensor> got = lossCase.run({scores, labels});
  LossAndCount want = crossEntropy(scores, classDim, labels);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NEAR(got[0].real(0), want.loss, tolerance);
  EXPECT_EQ(got[1].integer(0), want.correct);
}

Tensor labelsOf(const Shape &shape, int64_t classes) { return randomTensor("i64", shape, -1, double(classes - 1)); }

// Samples by classes; samples by positions by words; samples by classes by rows and columns. Some labels are -1.
TEST(Loss, CrossEntropyFindsTheClasses) {
  LossCase matrix("tensor<64x10xf32>", "tensor<64x10xf32>", "", "cross-entropy");
  expectCrossEntropy(matrix, randomTensor("f32", {64, 10}, -5, 5), 1, labelsOf({64}, 10));
  LossCase words("tensor<4x6x9xf32>", "tensor<4x6x9xf32>", "", "cross-entropy");
  expectCrossEntropy(words, randomTensor("f32", {4, 6, 9}, -5, 5), 2, labelsOf({4, 6}, 9));
  LossCase signal("tensor<4x6x9xf32>", "tensor<4x6x9xf32>", "", "cross-entropy,classes=1");
  expectCrossEntropy(signal, randomTensor("f32", {4, 6, 9}, -5, 5), 1, labelsOf({4, 9}, 6));
  LossCase image("tensor<2x5x4x3xf32>", "tensor<2x5x4x3xf32>", "", "cross-entropy");
  expectCrossEntropy(image, randomTensor("f32", {2, 5, 4, 3}, -5, 5), 1, labelsOf({2, 4, 3}, 5));
}

// With an ignored label the mean is over the labels that count, as ONNX defines it; without any it is 0.
TEST(Loss, CrossEntropyLeavesIgnoredLabelsOut) {
  for (int64_t ignored : {-1, 3}) {
    LossCase words("tensor<4x6x9xf32>", "tensor<4x6x9xf32>", "",
                   "cross-entropy,ignore-index=" + std::to_string(ignored));
    Tensor scores = randomTensor("f32", {4, 6, 9}, -5, 5), labels = labelsOf({4, 6}, 9), known = labels;
    int64_t count = 0;
    for (int64_t i = 0; i != labels.size(); ++i) {
      known.setInteger(i, labels.integer(i) == ignored ? -1 : labels.integer(i));
      count += known.integer(i) >= 0;
    }
    ASSERT_GT(count, 0);
    ASSERT_LT(count, 24);
    LossAndCount all = crossEntropy(scores, 2, known);
    std::vector<Tensor> got = words.run({scores, labels});
    ASSERT_EQ(got.size(), 3u);
    EXPECT_NEAR(got[0].real(0), all.loss * 24 / static_cast<double>(count), 1e-6);
    EXPECT_EQ(got[1].integer(0), all.correct);
    EXPECT_EQ(got[2].integer(0), count);
    got = words.run({scores, randomTensor("i64", {4, 6}, double(ignored), double(ignored))});
    EXPECT_EQ(got[0].real(0), 0);
    EXPECT_EQ(got[2].integer(0), 0);
  }
}

// Scores far beyond what exp can take.
TEST(Loss, CrossEntropyIsStable) {
  LossCase matrix("tensor<8x5xf32>", "tensor<8x5xf32>", "", "cross-entropy");
  expectCrossEntropy(matrix, randomTensor("f32", {8, 5}, -2000, 2000), 1, labelsOf({8}, 5), 1e-3);
}

// Among equal scores the first counts: of eight samples whose scores are all equal, those with label 0.
TEST(Loss, CountsTheFirstOfEqualScores) {
  LossCase matrix("tensor<8x2xf32>", "tensor<8x2xf32>", "", "cross-entropy");
  Tensor labels("i64", {8});
  for (int64_t i = 0; i < 8; ++i)
    labels.setInteger(i, i < 3 ? 0 : 1);
  EXPECT_EQ(matrix.run({randomTensor("f32", {8, 2}, 1, 1), labels})[1].integer(0), 3);
}

// What goes into softmax counts: probabilities that round to zero do no harm.
TEST(Loss, CrossEntropyLooksThroughSoftmax) {
  Tensor scores = randomTensor("f32", {16, 7}, -200, 200), labels = labelsOf({16}, 7);
  for (std::string op : {"softmax", "log_softmax"}) {
    LossCase softmax("tensor<16x7xf32>", "tensor<16x7xf32>",
                     "%y = dfg." + op + " %x {dim = 1 : i64} : (tensor<16x7xf32>) -> tensor<16x7xf32>",
                     "cross-entropy");
    expectCrossEntropy(softmax, scores, 1, labels, 1e-4);
  }
}

// Narrow scores are widened before anything is summed.
TEST(Loss, CrossEntropyWidensNarrowScores) {
  LossCase matrix("tensor<64x10xbf16>", "tensor<64x10xbf16>", "", "cross-entropy");
  expectCrossEntropy(matrix, randomTensor("bf16", {64, 10}, -5, 5), 1, labelsOf({64}, 10));
}

TEST(Loss, MeanSquaredErrorIsTheMeanOfAllElements) {
  LossCase lossCase("tensor<6x5xf32>", "tensor<6x5xf32>", "", "mse");
  Tensor x = randomTensor("f32", {6, 5}, -2, 2), target = randomTensor("f32", {6, 5}, 0, 1);
  double want = 0;
  for (int64_t i = 0; i < x.size(); ++i)
    want += std::pow(x.real(i) - target.real(i), 2) / 30;
  std::vector<Tensor> got = lossCase.run({x, target});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_NEAR(got[0].real(0), want, 1e-6);
}

TEST(Loss, TakesOutputsAsTheyAreOrTheirMeans) {
  Tensor x = randomTensor("f32", {6}, -2, 2), one = randomTensor("f32", {1, 1}, 3, 3);
  double want = 0;
  for (int64_t i = 0; i < 6; ++i)
    want += x.real(i) / 6;
  EXPECT_NEAR(LossCase("tensor<6xf32>", "tensor<6xf32>", "", "y").run({x})[0].real(0), want, 1e-6);
  EXPECT_EQ(LossCase("tensor<1x1xf32>", "tensor<1x1xf32>", "", "y").run({one})[0].real(0), 3.0);
}

// Every operator of the loss in random splits on random meshes: batch and classes cut, alone and together, also where
// they do not divide.
TEST(Loss, SurvivesSplits) {
  struct {
    const char *type, *labels, *loss;
    double low, high;
  } const cases[] = {{"tensor<12x10xf32>", "tensor<12xi64>", "cross-entropy", 0, 9},
                     {"tensor<6x4x9xf32>", "tensor<6x4xi64>", "cross-entropy", 0, 8},
                     {"tensor<6x4x9xf32>", "tensor<6x4xi64>", "cross-entropy,ignore-index=-1", -1, 8},
                     {"tensor<5x7x2x3xf32>", "tensor<5x2x3xi64>", "cross-entropy", 0, 6},
                     {"tensor<7x6xf32>", "tensor<7x6xf32>", "mse", 0, 1}};
  uint64_t seed = 1;
  for (const auto &lossCase : cases)
    for (unsigned round = 0; round < 6; ++round) {
      LossCase made(lossCase.type, lossCase.type, "", lossCase.loss);
      fillInput(made.graph(), 1, lossCase.low, lossCase.high);
      placeInRandomSplits(made.get(), seed++, /*onOneMesh=*/round % 2);
      std::string text;
      llvm::raw_string_ostream(text) << made.get();
      EXPECT_EQ(checkCase(made.get(), {/*optimized=*/round > 3}), "") << text;
    }
}

std::string messageOf(llvm::Expected<LossOptions> parsed) {
  return parsed ? "parsed" : llvm::toString(parsed.takeError());
}

TEST(Loss, ParsesOptions) {
  LossOptions options = *parseLoss("cross-entropy,output=y,labels=l,classes=2");
  EXPECT_EQ(options.kind, LossKind::CrossEntropy);
  EXPECT_EQ(options.output, "y");
  EXPECT_EQ(options.labels, "l");
  EXPECT_EQ(options.classes, 2);
  EXPECT_EQ(parseLoss("cross-entropy,ignore-index=-100")->ignoreIndex, -100);
  EXPECT_EQ(parseLoss("scores")->output, "scores");
  EXPECT_THAT(messageOf(parseLoss("")), HasSubstr("expects cross-entropy, mse or the name of an output first"));
  EXPECT_THAT(messageOf(parseLoss("mse,classes=1")), HasSubstr("the loss \"mse\" knows no option \"classes\""));
  EXPECT_THAT(messageOf(parseLoss("cross-entropy,ignore-index=pad")),
              HasSubstr("the loss expects a whole number for ignore-index, got \"pad\""));
  EXPECT_THAT(messageOf(parseLoss("cross-entropy,classes=-1")),
              HasSubstr("the loss expects a whole number of at least 0 for classes, got \"-1\""));
}

} // namespace
} // namespace cleave::test
