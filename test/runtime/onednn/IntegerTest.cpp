// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of unsigned by signed integers of 8 bits against loops: exact sums, and the way back to 8 bits. A processor
// whose sums would saturate must be refused them.

#include "IntegerHarness.h"

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

/// Sums of a convolution with a padding of one and windows of 3 x 3, exact.
std::vector<double> convolved(const Numbers &data, const Numbers &weights, int64_t groups) {
  int64_t channels = data.shape[1], rows = data.shape[2], columns = data.shape[3], filters = weights.shape[0];
  std::vector<double> sums;
  forEach({data.shape[0], filters, rows, columns}, [&](const Shape &at, int64_t) {
    double sum = 0;
    int64_t first = at[1] / (filters / groups) * (channels / groups);
    for (int64_t c = 0; c != channels / groups; ++c)
      for (int64_t i = 0; i != 3; ++i)
        for (int64_t j = 0; j != 3; ++j) {
          int64_t row = at[2] + i - 1, column = at[3] + j - 1;
          if (row >= 0 && row < rows && column >= 0 && column < columns)
            sum += data.values[((at[0] * channels + first + c) * rows + row) * columns + column] *
                   weights.values[((at[1] * (channels / groups) + c) * 3 + i) * 3 + j];
        }
    sums.push_back(sum);
  });
  return sums;
}

/// Whether the library multiplies integers here; where it does not, expects it to say so.
bool multiplies(const LibraryKernelQuery &query) {
  if (hasVnni() || hasPanels())
    return true;
  auto choice = oneDnnLibrary().choose(query, 1);
  EXPECT_FALSE(choice);
  if (!choice) {
    EXPECT_NE(choice.error().message().find("saturate"), std::string::npos) << choice.error().message();
  }
  return false;
}

/// Whether sums come out as integers here; where they pass through float32, expects many to be refused.
bool sumsExactly(const LibraryKernelQuery &query, int64_t depth) {
  if (!multiplies(query))
    return false;
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  if (hasPanels() || (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core || depth * 255 * 128 <= 1 << 24)
    return true;
  auto choice = oneDnnLibrary().choose(query, 1);
  EXPECT_FALSE(choice);
  if (!choice) {
    EXPECT_NE(choice.error().message().find("are rounded"), std::string::npos) << choice.error().message();
  }
  return false;
}

struct ConvolutionCase {
  Shape data, weights;
  int64_t groups;
  /// Whether there is code that does what is behind the sums with them.
  bool fuses = true;
};

class IntegerConvolution : public testing::TestWithParam<ConvolutionCase> {
protected:
  LibraryKernelQuery query(const std::vector<Numbers> &inputs, ElementType output) const {
    const ConvolutionCase &sizes = GetParam();
    LibraryKernelQuery query = queryOf(
        "convolution", inputs, {output, {sizes.data[0], sizes.weights[0], sizes.data[2], sizes.data[3]}, std::nullopt});
    query.desc.ints = {{"pads_begin", {1, 1}}, {"pads_end", {1, 1}}, {"groups", {sizes.groups}}};
    return query;
  }
};

} // namespace

// Random numbers, and the largest, whose sums float32 does not count.
TEST_P(IntegerConvolution, SumsAreExact) {
  const ConvolutionCase &sizes = GetParam();
  for (const std::vector<Numbers> &inputs :
       {std::vector{whole(ElementType::U8, sizes.data, 1, 0, 255), whole(ElementType::I8, sizes.weights, 2, -128, 127)},
        std::vector{all(ElementType::U8, sizes.data, 255), whole(ElementType::I8, sizes.weights, 3, 126, 127)},
        std::vector{all(ElementType::U8, sizes.data, 255), all(ElementType::I8, sizes.weights, -128)}}) {
    LibraryKernelQuery asked = query(inputs, ElementType::I32);
    if (!sumsExactly(asked, sizes.weights[1] * 9))
      return;
    EXPECT_EQ(Loaded(asked).run(inputs), convolved(inputs[0], inputs[1], sizes.groups));
  }
}

// A bias, a scale a channel, rounding to even and a zero point, saturated at both ends.
TEST_P(IntegerConvolution, ComesBackToBytes) {
  const ConvolutionCase &sizes = GetParam();
  int64_t channels = sizes.weights[0];
  for (ElementType target : {ElementType::U8, ElementType::I8}) {
    std::vector<Numbers> inputs = {whole(ElementType::U8, sizes.data, 1, 0, 255),
                                   whole(ElementType::I8, sizes.weights, 2, -127, 127),
                                   whole(ElementType::I32, {channels}, 3, -4000, 4000),
                                   reals({channels}, 4, 0.001f, 0.02f), all(ElementType::F32, {1, 1, 1, 1}, 7)};
    // Halves, which go to the even neighbour.
    inputs[3].values[0] = 0.0078125;
    LibraryKernelQuery asked = query(inputs, target);
    asked.desc.postOps = {{"scale", 0, 0, 3}, {"round", 0, 0, -1}, {"binary_add", 0, 0, 4}};
    if (!multiplies(asked))
      return;
    if (!sizes.fuses && !hasPanels()) {
      auto choice = oneDnnLibrary().choose(asked, 1);
      ASSERT_FALSE(choice);
      EXPECT_NE(choice.error().message().find("\"round\" one element after the other"), std::string::npos)
          << choice.error().message();
      return;
    }
    std::vector<double> sums = convolved(inputs[0], inputs[1], sizes.groups), expected;
    int64_t positions = sizes.data[2] * sizes.data[3];
    double least = target == ElementType::U8 ? 0 : -128, most = target == ElementType::U8 ? 255 : 127;
    for (size_t i = 0; i != sums.size(); ++i) {
      size_t channel = i / positions % channels;
      float scaled =
          static_cast<float>(sums[i] + inputs[2].values[channel]) * static_cast<float>(inputs[3].values[channel]);
      expected.push_back(std::clamp(std::nearbyint(scaled) + 7.0, least, most));
    }
    EXPECT_EQ(Loaded(asked).run(inputs), expected);
  }
}

// Without an operation for it, what is written as integers is rounded to the nearest, halves to even.
TEST_P(IntegerConvolution, RoundsWhatItWrites) {
  const ConvolutionCase &sizes = GetParam();
  std::vector<Numbers> inputs = {whole(ElementType::U8, sizes.data, 1, 0, 255),
                                 whole(ElementType::I8, sizes.weights, 2, -127, 127),
                                 all(ElementType::F32, {1}, 0.015625)};
  LibraryKernelQuery asked = query(inputs, ElementType::U8);
  asked.desc.postOps = {{"scale", 0, 0, 2}};
  if (!multiplies(asked))
    return;
  std::vector<double> expected = convolved(inputs[0], inputs[1], sizes.groups);
  for (double &value : expected)
    value = std::clamp(std::nearbyint(value * 0.015625), 0.0, 255.0);
  EXPECT_EQ(Loaded(asked).run(inputs), expected);
}

// Channels that fill no block, many channels, groups of one and of several.
INSTANTIATE_TEST_SUITE_P(Sizes, IntegerConvolution,
                         testing::Values(ConvolutionCase{{2, 3, 5, 6}, {7, 3, 3, 3}, 1},
                                         ConvolutionCase{{1, 80, 4, 4}, {33, 80, 3, 3}, 1},
                                         ConvolutionCase{{1, 16, 6, 5}, {16, 1, 3, 3}, 16},
                                         ConvolutionCase{{1, 12, 6, 5}, {18, 4, 3, 3}, 3, false}));

// Products of odd sizes, and of sums that float32 does not count.
TEST(IntegerMatmul, SumsAreExact) {
  for (auto [rows, depth, columns] : {std::array{5, 17, 33}, {1, 600, 10}, {12, 1030, 64}})
    for (int largest : {1, 0}) {
      std::vector<Numbers> inputs = {largest ? all(ElementType::U8, {rows, depth}, 255)
                                             : whole(ElementType::U8, {rows, depth}, 1, 0, 255),
                                     whole(ElementType::I8, {depth, columns}, 2, largest ? 126 : -128, 127)};
      LibraryKernelQuery asked = queryOf("matmul", inputs, {ElementType::I32, {rows, columns}, std::nullopt});
      if (!sumsExactly(asked, depth))
        continue;
      EXPECT_EQ(Loaded(asked).run(inputs), multiplied(inputs[0], inputs[1]));
    }
}

// A kernel is made with the scales that a call brings, and made anew for others.
TEST(IntegerMatmul, TakesScalesFromItsInput) {
  std::vector<Numbers> inputs = {whole(ElementType::U8, {4, 20}, 1, 0, 255),
                                 whole(ElementType::I8, {20, 9}, 2, -128, 127), reals({9}, 3, -1, 1),
                                 reals({9}, 4, 0.01f, 0.5f)};
  LibraryKernelQuery asked = queryOf("matmul", inputs, {ElementType::F32, {4, 9}, std::nullopt});
  asked.desc.postOps = {{"scale", 0, 0, 3}};
  if (!multiplies(asked))
    return;
  Loaded kernel(asked);
  std::vector<double> sums = multiplied(inputs[0], inputs[1]);
  for (unsigned seed : {4u, 5u, 5u, 4u}) {
    inputs[3] = reals({9}, seed, 0.01f, 0.5f);
    std::vector<double> results = kernel.run(inputs);
    for (size_t i = 0; i != sums.size(); ++i) {
      double expected = (sums[i] + inputs[2].values[i % 9]) * inputs[3].values[i % 9];
      EXPECT_NEAR(results[i], expected, 1e-5 * std::fabs(expected) + 1e-5) << i;
    }
  }
}

// One scale for all channels is one number.
TEST(IntegerMatmul, TakesOneScaleForAll) {
  std::vector<Numbers> inputs = {whole(ElementType::U8, {4, 20}, 1, 0, 255),
                                 whole(ElementType::I8, {20, 9}, 2, -128, 127), all(ElementType::F32, {1}, 0.25)};
  LibraryKernelQuery asked = queryOf("matmul", inputs, {ElementType::F32, {4, 9}, std::nullopt});
  asked.desc.postOps = {{"scale", 0, 0, 2}};
  if (!multiplies(asked))
    return;
  std::vector<double> expected = multiplied(inputs[0], inputs[1]);
  for (double &value : expected)
    value *= 0.25;
  EXPECT_EQ(Loaded(asked).run(inputs), expected);
}

// What would need weights in a form that a plan cannot record, and scales that are none.
TEST(IntegerMatmul, RefusesOtherNumbers) {
  auto refused = [](const LibraryKernelQuery &query, const std::string &message) {
    auto choice = oneDnnLibrary().choose(query, 1);
    ASSERT_FALSE(choice) << message;
    EXPECT_NE(choice.error().message().find(message), std::string::npos) << choice.error().message();
  };
  auto product = [](ElementType left, ElementType right) {
    return queryOf("matmul", {all(left, {4, 20}, 1), all(right, {20, 9}, 1), all(ElementType::F32, {9}, 1)},
                   {ElementType::F32, {4, 9}, std::nullopt});
  };
  LibraryKernelQuery query = product(ElementType::I8, ElementType::I8);
  query.desc.postOps = {{"scale", 0, 0, 2}};
  refused(query, "expects elements u8 and i8 to multiply integers, got i8 and i8");
  query = product(ElementType::F32, ElementType::F32);
  query.desc.inputs[2].shape = {8};
  query.desc.postOps = {{"scale", 0, 0, 2}};
  refused(query, "\"scale\" expects to be the first, of a contraction, with an input of one f32 or one a channel");
  query = product(ElementType::F32, ElementType::F32);
  query.desc.postOps = {{"relu", 0, 0, -1}, {"scale", 0, 0, 2}};
  refused(query, "\"scale\" expects to be the first");
  query = product(ElementType::F32, ElementType::F32);
  query.desc.postOps = {{"scale", 0, 0, -1}};
  refused(query, "\"scale\" expects an input");
}
