// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradient through cuDNN's graphs, against loops over what they mean; what the rules refuse; and that
// the installed cuDNN knows these graphs.

#include "runtime/drivers/cuda/CudnnAttentionGraph.h"
#include "test/runtime/cuda/CudaLibraryHarness.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

#include <cmath>
#include <cstring>

namespace cleave::runtime::test {
namespace {

/// Of attention: [batch, head, position, element] or, with positions first, [batch, position, head, element].
struct AttentionCase {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1, size = 8;
  bool positionsFirst = false, isCausal = false;
  double scale = 1;

  Shape shape(int64_t positions) const {
    return positionsFirst ? Shape{batch, positions, heads, size} : Shape{batch, heads, positions, size};
  }
  Shape at(int64_t b, int64_t h, int64_t position, int64_t element) const {
    return positionsFirst ? Shape{b, position, h, element} : Shape{b, h, position, element};
  }
  TensorType type(int64_t positions) const { return {ElementType::BF16, shape(positions), std::nullopt}; }
  TensorType logSums() const { return {ElementType::F32, {batch, heads, queries, 1}, std::nullopt}; }

  LibraryKernelDesc forward(bool withLogSums) const {
    LibraryKernelDesc desc;
    desc.operation = "attention";
    desc.inputs = {type(queries), type(keys), type(keys)};
    desc.outputs = {type(queries)};
    if (withLogSums)
      desc.outputs.push_back(logSums());
    return withAttributes(desc);
  }
  LibraryKernelDesc gradient() const {
    LibraryKernelDesc desc;
    desc.operation = "attention_gradient";
    desc.inputs = {type(queries), type(keys), type(keys), type(queries), logSums(), type(queries)};
    desc.outputs = {type(queries), type(keys), type(keys)};
    return withAttributes(desc);
  }

private:
  LibraryKernelDesc withAttributes(LibraryKernelDesc desc) const {
    desc.ints["positions_first"] = {positionsFirst};
    desc.ints["causal"] = {isCausal};
    desc.reals["scale"] = {scale};
    return desc;
  }
};

/// What attention gives, and the gradients, in double precision.
struct AttentionResults {
  Values result, logSums, ofQueries, ofKeys, ofValues;
};

AttentionResults compute(const AttentionCase &c, const Values &q, const Values &k, const Values &v, const Values &d) {
  auto zeros = [](Shape shape) { return tabulate(shape, [](const Shape &) { return 0; }); };
  AttentionResults r{zeros(c.shape(c.queries)), zeros({c.batch, c.heads, c.queries, 1}), zeros(c.shape(c.queries)),
                     zeros(c.shape(c.keys)), zeros(c.shape(c.keys))};
  for (int64_t b = 0; b != c.batch; ++b)
    for (int64_t h = 0; h != c.heads; ++h)
      for (int64_t i = 0; i != c.queries; ++i) {
        auto dot = [&](const Values &x, const Values &y, int64_t j) {
          double sum = 0;
          for (int64_t e = 0; e != c.size; ++e)
            sum += x.at(c.at(b, h, i, e)) * y.at(c.at(b, h, j, e));
          return sum;
        };
        std::vector<double> weights;
        double sum = 0, centre = 0;
        int64_t seen = c.isCausal ? std::min(c.keys, i + 1) : c.keys;
        for (int64_t j = 0; j != seen; ++j)
          sum += weights.emplace_back(std::exp(c.scale * dot(q, k, j)));
        r.logSums.at({b, h, i, 0}) = std::log(sum);
        for (int64_t j = 0; j != seen; ++j) {
          weights[j] /= sum;
          centre += weights[j] * dot(d, v, j);
          for (int64_t e = 0; e != c.size; ++e)
            r.result.at(c.at(b, h, i, e)) += weights[j] * v.at(c.at(b, h, j, e));
        }
        for (int64_t j = 0; j != seen; ++j) {
          double ofScore = c.scale * weights[j] * (dot(d, v, j) - centre);
          for (int64_t e = 0; e != c.size; ++e) {
            r.ofQueries.at(c.at(b, h, i, e)) += ofScore * k.at(c.at(b, h, j, e));
            r.ofKeys.at(c.at(b, h, j, e)) += ofScore * q.at(c.at(b, h, i, e));
            r.ofValues.at(c.at(b, h, j, e)) += weights[j] * d.at(c.at(b, h, i, e));
          }
        }
      }
  return r;
}

/// The difference to the largest element: weights and the gradient of scores are rounded to 8 bits before they are
/// multiplied, and so are results.
void expectRounded(const Values &actual, const Values &expected, double relative) {
  double largest = 0, error = 0;
  for (size_t i = 0; i != expected.values.size(); ++i) {
    largest = std::max(largest, std::abs(expected.values[i]));
    error = std::max(error, std::abs(actual.values[i] - expected.values[i]));
    ASSERT_TRUE(std::isfinite(actual.values[i]));
  }
  EXPECT_LE(error, relative * largest);
}

AttentionCase randomCase(std::mt19937 &random) {
  AttentionCase c;
  c.batch = 1 + random() % 3;
  c.heads = 1 + random() % 4;
  c.queries = 1 + random() % 40;
  c.keys = 1 + random() % 50;
  c.size = 8 * (1 + random() % (random() % 4 ? 4 : 16));
  c.positionsFirst = random() % 2;
  c.isCausal = random() % 2;
  c.scale = random() % 2 ? 1 / std::sqrt(double(c.size)) : 0.25;
  return c;
}

// Sizes that divide nothing, both orders of dimensions, with and without a mask, with and without log sums. The
// gradient is computed from what the kernel gave before.
TEST(CudnnAttention, ComputesResultsAndGradients) {
  std::mt19937 random(1);
  for (int i = 0; i != 40; ++i) {
    AttentionCase c = randomCase(random);
    SCOPED_TRACE(c.gradient().text() + (c.isCausal ? " causal" : ""));
    Values q = randomValues(random, c.shape(c.queries), ElementType::BF16);
    Values k = randomValues(random, c.shape(c.keys), ElementType::BF16);
    Values v = randomValues(random, c.shape(c.keys), ElementType::BF16);
    Values d = randomValues(random, c.shape(c.queries), ElementType::BF16);
    AttentionResults expected = compute(c, q, k, v, d);
    LibraryRun forward(c.forward(/*withLogSums=*/true), {q, k, v});
    forward.choose();
    std::vector<Values> given = forward.runAll();
    expectRounded(given[0], expected.result, 1.0 / 128);
    expectNear(given[1], expected.logSums, 1e-5);
    expectNear(runLibraryKernel(c.forward(/*withLogSums=*/false), {q, k, v}), given[0], 0);
    LibraryRun gradient(c.gradient(), {q, k, v, given[0], given[1], d});
    gradient.choose();
    std::vector<Values> gradients = gradient.runAll();
    // Of one key the gradients are zero: what is left is the rounding of the result.
    constexpr double rounding = 1.0 / 40;
    if (c.keys != 1) {
      expectRounded(gradients[0], expected.ofQueries, rounding);
      expectRounded(gradients[1], expected.ofKeys, rounding);
    }
    expectRounded(gradients[2], expected.ofValues, rounding);
  }
}

// 32,769 heads of one query have a gibibyte of scores in whole tiles, and little data: their gradient is added up in
// float32, which is said.
TEST(CudnnAttention, AddsUpWhereScoresAreTooMany) {
  std::mt19937 random(4);
  AttentionCase c{1, 32769, 1, 2, 8};
  ASSERT_FALSE(readCudnnAttention(c.gradient())->isRepeatable());
  Values q = randomValues(random, c.shape(1), ElementType::BF16),
         k = randomValues(random, c.shape(2), ElementType::BF16);
  Values v = randomValues(random, c.shape(2), ElementType::BF16),
         d = randomValues(random, c.shape(1), ElementType::BF16);
  AttentionResults expected = compute(c, q, k, v, d);
  std::vector<Values> given;
  {
    LibraryRun forward(c.forward(true), {q, k, v});
    forward.choose();
    given = forward.runAll();
  }
  LibraryRun gradient(c.gradient(), {q, k, v, given[0], given[1], d});
  testing::internal::CaptureStderr();
  gradient.choose();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("the last bits may differ"), std::string::npos);
  std::vector<Values> gradients = gradient.runAll();
  constexpr double rounding = 1.0 / 40;
  expectRounded(gradients[0], expected.ofQueries, rounding);
  expectRounded(gradients[1], expected.ofKeys, rounding);
  expectRounded(gradients[2], expected.ofValues, rounding);
}

/// Engines that do not run, for as long as it lives.
struct FailingEngines {
  explicit FailingEngines(std::set<int64_t> engines) { simulated::libraryRefusals.runningEngines = std::move(engines); }
  ~FailingEngines() { simulated::libraryRefusals.runningEngines = {}; }
};

// The fastest engine, whichever comes first; one that fails when it runs is left out; where none is left the error says
// what to do.
TEST(CudnnAttention, TakesTheFastestEngineThatRuns) {
  std::mt19937 random(2);
  AttentionCase c{2, 2, 20, 30, 16};
  std::vector<Values> inputs = {randomValues(random, c.shape(c.queries), ElementType::BF16),
                                randomValues(random, c.shape(c.keys), ElementType::BF16),
                                randomValues(random, c.shape(c.keys), ElementType::BF16)};
  LibraryRun kernel(c.forward(false), inputs);
  kernel.choose();
  EXPECT_EQ(kernel.kept(), "engine 2");
  {
    FailingEngines failing({2});
    AttentionCase other = c;
    other.queries = 21;
    inputs[0] = randomValues(random, other.shape(other.queries), ElementType::BF16);
    LibraryRun slower(other.forward(false), inputs);
    slower.choose();
    EXPECT_EQ(slower.kept(), "engine 1");
  }
  FailingEngines failing({1, 2});
  c.queries = 22;
  inputs[0] = randomValues(random, c.shape(c.queries), ElementType::BF16);
  LibraryRun none(c.forward(false), inputs);
  try {
    none.choose();
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    for (const char *part : {"cudnn kernel \"attention\" bf16[2,2,22,16]",
                             "has no engine for it on this GPU: ", "; compile the plan with --no-fused-attention"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// A choice of an earlier run is taken without measuring; one that means nothing is not.
TEST(CudnnAttention, TakesWhatWasKept) {
  std::mt19937 random(3);
  AttentionCase c{1, 2, 17, 19, 24};
  std::vector<Values> inputs = {randomValues(random, c.shape(c.queries), ElementType::BF16),
                                randomValues(random, c.shape(c.keys), ElementType::BF16),
                                randomValues(random, c.shape(c.keys), ElementType::BF16)};
  LibraryRun kernel(c.forward(false), inputs);
  kernel.keep("engine 1");
  int before = simulated::engineSearches;
  kernel.choose();
  EXPECT_EQ(simulated::engineSearches, before);
  EXPECT_EQ(kernel.kept(), "engine 1");
  for (const char *wrong : {"engine 9", "tile 1"}) {
    LibraryRun other(c.forward(false), inputs);
    other.keep(wrong);
    other.choose();
    EXPECT_EQ(other.kept(), "engine 2") << wrong;
  }
}

//===-- rules -------------------------------------------------------------------------------------------------===//

void expectRefused(const LibraryKernelDesc &desc, Status status, const std::string &part) {
  auto problem = readCudnnAttention(desc);
  ASSERT_FALSE(problem) << part;
  EXPECT_EQ(problem.error().status(), status) << problem.error().text();
  EXPECT_NE(problem.error().message().find(part), std::string::npos) << problem.error().text();
}

TEST(CudnnAttention, RefusesWhatItDoesNotKnow) {
  AttentionCase c{2, 3, 20, 30, 16};
  auto changed = [&](const std::function<void(LibraryKernelDesc &)> &change, bool isGradient = false) {
    LibraryKernelDesc desc = isGradient ? c.gradient() : c.forward(true);
    change(desc);
    return desc;
  };
  expectRefused(changed([](auto &desc) { desc.inputs[1].element = ElementType::F32; }), Status::Unsupported,
                "row-major arguments of bf16, got f32[2,3,30,16]");
  expectRefused(changed([](auto &desc) { desc.inputs[2].shape[2] = 31; }), Status::Rejected,
                "expects bf16[2,3,30,16], got bf16[2,3,31,16]");
  expectRefused(changed([](auto &desc) { desc.outputs[0].shape[1] = 4; }), Status::Rejected, "got bf16[2,4,20,16]");
  expectRefused(changed([](auto &desc) { desc.outputs[1].shape = {2, 3, 20}; }), Status::Rejected,
                "expects log sums f32[2,3,20,1]");
  expectRefused(changed([](auto &desc) { desc.inputs[4].element = ElementType::BF16; }, true), Status::Rejected,
                "expects log sums");
  expectRefused(changed([](auto &desc) { desc.inputs.pop_back(); }), Status::Rejected, "expects 3 inputs");
  expectRefused(changed([](auto &desc) { desc.outputs.pop_back(); }, true), Status::Rejected, "and 3 outputs");
  expectRefused(changed([](auto &desc) { desc.postOps = {{"relu"}}; }), Status::Unsupported, "no post operations");
  expectRefused(changed([](auto &desc) { desc.ints["causal"] = {2}; }), Status::Rejected, "\"causal\"");
  expectRefused(changed([](auto &desc) { desc.reals["scale"] = {INFINITY}; }), Status::Rejected, "one finite number");
  expectRefused(changed([](auto &desc) { desc.inputs[0].shape = {6, 20, 16}; }), Status::Rejected, "4 dimensions");
  for (int64_t size : {4, 12, 136}) {
    AttentionCase other = c;
    other.size = size;
    expectRefused(other.forward(false), Status::Unsupported, "a multiple of 8");
  }
}

// Beyond a gibibyte of scores the queries' gradient is added up as it comes, in float32; it needs no scores then.
TEST(CudnnAttention, KeepsScoresUpToAGibibyte) {
  AttentionCase c{1, 16, 4096, 8192, 64};
  auto small = readCudnnAttention(c.gradient());
  c.keys = 8193;
  auto large = readCudnnAttention(c.gradient());
  ASSERT_TRUE(small && large);
  EXPECT_TRUE(small->isRepeatable());
  EXPECT_FALSE(large->isRepeatable());
  EXPECT_GE(small->workspaceBytes(), uint64_t(1) << 30);
  EXPECT_GE(large->workspaceBytes(), uint64_t(16) * 4096 * 64 * sizeof(float));
  EXPECT_LT(large->workspaceBytes(), uint64_t(1) << 28);
  EXPECT_TRUE(readCudnnAttention(c.forward(true))->isRepeatable());
}

} // namespace
} // namespace cleave::runtime::test
