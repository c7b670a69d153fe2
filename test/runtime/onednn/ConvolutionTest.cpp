// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolution and deconvolution against loops over their definitions, in the layouts that oneDNN prefers.

#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

struct Case {
  const char *name;
  Shape data, weights; // weights [O, C/G, kernel...], or [C, O/G, kernel...] of a deconvolution
  Shape strides, dilations, padsBegin, padsEnd;
  int64_t groups = 1;
  Shape outputPadding = {};
};

std::ostream &operator<<(std::ostream &out, const Case &c) { return out << c.name; }

/// Sum and sum of magnitudes.
struct Sums {
  Tensor value, magnitude;
};

Shape outputShape(const Case &c, bool transposed) {
  Shape shape{c.data[0], transposed ? c.weights[1] * c.groups : c.weights[0]};
  for (size_t d = 0; d != c.strides.size(); ++d) {
    int64_t extent = (c.weights[d + 2] - 1) * c.dilations[d] + 1, pads = c.padsBegin[d] + c.padsEnd[d];
    shape.push_back(transposed ? (c.data[d + 2] - 1) * c.strides[d] + extent - pads +
                                     (c.outputPadding.empty() ? 0 : c.outputPadding[d])
                               : (c.data[d + 2] + pads - extent) / c.strides[d] + 1);
  }
  return shape;
}

/// Calls `visit` with every kernel offset.
void forEachOffset(const Case &c, const std::function<void(const Shape &)> &visit) {
  Shape kernel(c.weights.begin() + 2, c.weights.end());
  tabulate(kernel, [&](const Shape &offset) {
    visit(offset);
    return 0;
  });
}

/// y[n, o, p] = bias[o] + sum over c, k of x[n, c, p * stride - begin + k * dilation] w[o, c, k].
Sums convolve(const Case &c, const Tensor &x, const Tensor &w, const Tensor &bias) {
  Shape shape = outputShape(c, false);
  int64_t inner = c.weights[1], perGroup = c.weights[0] / c.groups;
  auto sum = [&](const Shape &index, bool absolute) {
    double total = absolute ? std::fabs(bias.values[index[1]]) : bias.values[index[1]];
    forEachOffset(c, [&](const Shape &offset) {
      Shape from{index[0], 0}, tap{index[1], 0};
      for (size_t d = 0; d != offset.size(); ++d) {
        int64_t position = index[d + 2] * c.strides[d] - c.padsBegin[d] + offset[d] * c.dilations[d];
        if (position < 0 || position >= c.data[d + 2])
          return;
        from.push_back(position);
        tap.push_back(offset[d]);
      }
      for (int64_t channel = 0; channel != inner; ++channel) {
        from[1] = index[1] / perGroup * inner + channel;
        tap[1] = channel;
        double product = double(x.at(from)) * w.at(tap);
        total += absolute ? std::fabs(product) : product;
      }
    });
    return total;
  };
  return {tabulate(shape, [&](const Shape &index) { return sum(index, false); }),
          tabulate(shape, [&](const Shape &index) { return sum(index, true); })};
}

/// y[n, o, p * stride - begin + k * dilation] += x[n, c, p] w[c, o, k], from bias[o].
Sums deconvolve(const Case &c, const Tensor &x, const Tensor &w, const Tensor &bias) {
  Shape shape = outputShape(c, true);
  std::vector<double> value(elements(shape)), magnitude(elements(shape));
  int64_t perGroup = c.data[1] / c.groups, outputs = c.weights[1];
  auto flat = [&](const Shape &index) {
    int64_t position = 0;
    for (size_t d = 0; d != shape.size(); ++d)
      position = position * shape[d] + index[d];
    return position;
  };
  tabulate(x.shape, [&](const Shape &index) {
    forEachOffset(c, [&](const Shape &offset) {
      Shape to{index[0], 0}, tap{index[1], 0};
      for (size_t d = 0; d != offset.size(); ++d) {
        to.push_back(index[d + 2] * c.strides[d] - c.padsBegin[d] + offset[d] * c.dilations[d]);
        if (to.back() < 0 || to.back() >= shape[d + 2])
          return;
        tap.push_back(offset[d]);
      }
      for (int64_t o = 0; o != outputs; ++o) {
        to[1] = index[1] / perGroup * outputs + o;
        tap[1] = o;
        double product = double(x.at(index)) * w.at(tap);
        value[flat(to)] += product;
        magnitude[flat(to)] += std::fabs(product);
      }
    });
    return 0;
  });
  return {tabulate(shape, [&](const Shape &i) { return value[flat(i)] + bias.values[i[1]]; }),
          tabulate(shape, [&](const Shape &i) { return magnitude[flat(i)] + std::fabs(bias.values[i[1]]); })};
}

/// dw[o, c, k] = sum over n, p of x[n, c, p * stride - begin + k * dilation] dy[n, o, p].
Sums weightGradient(const Case &c, const Tensor &x, const Tensor &dy) {
  int64_t inner = c.weights[1], perGroup = c.weights[0] / c.groups;
  Shape positions = dy.shape;
  positions[1] = 1;
  auto sum = [&](const Shape &tap, bool absolute) {
    double total = 0;
    tabulate(positions, [&](Shape index) {
      index[1] = tap[0];
      Shape from{index[0], tap[0] / perGroup * inner + tap[1]};
      for (size_t d = 0; d != c.strides.size(); ++d) {
        from.push_back(index[d + 2] * c.strides[d] - c.padsBegin[d] + tap[d + 2] * c.dilations[d]);
        if (from.back() < 0 || from.back() >= c.data[d + 2])
          return 0;
      }
      double product = double(x.at(from)) * dy.at(index);
      total += absolute ? std::fabs(product) : product;
      return 0;
    });
    return total;
  };
  return {tabulate(c.weights, [&](const Shape &tap) { return sum(tap, false); }),
          tabulate(c.weights, [&](const Shape &tap) { return sum(tap, true); })};
}

LibraryKernelQuery queryFor(const Case &c, bool transposed, const std::vector<Tensor> &inputs) {
  LibraryKernelQuery query =
      openQuery(transposed ? "deconvolution" : "convolution", inputs, outputShape(c, transposed));
  query.desc.ints = {{"strides", c.strides},
                     {"dilations", c.dilations},
                     {"pads_begin", c.padsBegin},
                     {"pads_end", c.padsEnd},
                     {"groups", {c.groups}}};
  return query;
}

std::vector<Tensor> inputsFor(const Case &c, bool transposed) {
  return {pseudorandom(c.data, 1), pseudorandom(c.weights, 2), pseudorandom({outputShape(c, transposed)[1]}, 3)};
}

class Convolution : public testing::TestWithParam<Case> {};
class Deconvolution : public testing::TestWithParam<Case> {};

} // namespace

// Each case is a way in which layouts, padding or groups can go wrong; the layouts are oneDNN's own choice.
TEST_P(Convolution, MatchesItsDefinition) {
  const Case &c = GetParam();
  std::vector<Tensor> inputs = inputsFor(c, false);
  Sums expected = convolve(c, inputs[0], inputs[1], inputs[2]);
  for (unsigned threads : {1u, 2u})
    expectSums(runKernel(queryFor(c, false, inputs), inputs, threads), expected.value, expected.magnitude,
               elements(c.weights) / c.weights[0] + 1);
}

// Row-major arguments must work too: a plan may decide against every reorder.
TEST_P(Convolution, MatchesItsDefinitionRowMajor) {
  const Case &c = GetParam();
  std::vector<Tensor> inputs = inputsFor(c, false);
  LibraryKernelQuery query = queryFor(c, false, inputs);
  query.anyInputs = {};
  query.anyOutputs = {};
  Sums expected = convolve(c, inputs[0], inputs[1], inputs[2]);
  expectSums(runKernel(query, inputs), expected.value, expected.magnitude, elements(c.weights) / c.weights[0] + 1);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Convolution,
    testing::Values(
        Case{"first layer, 3 channels", {1, 3, 23, 19}, {17, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
        Case{"odd channels", {2, 17, 9, 11}, {33, 17, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        Case{"pointwise", {1, 64, 7, 7}, {32, 64, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        Case{"pointwise, strided", {1, 32, 8, 8}, {48, 32, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
        Case{"asymmetric padding", {1, 16, 10, 9}, {16, 16, 3, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 2}},
        Case{"dilated", {1, 16, 15, 15}, {16, 16, 3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},
        Case{"grouped", {1, 32, 9, 9}, {64, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
        Case{"grouped, odd", {1, 9, 8, 8}, {15, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 3},
        Case{"depthwise", {1, 32, 12, 12}, {32, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 32},
        Case{"depthwise, odd", {1, 17, 12, 12}, {17, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 17},
        Case{"one dimension", {2, 5, 40}, {17, 5, 4}, {3}, {2}, {2}, {1}},
        Case{"three dimensions", {1, 3, 6, 7, 8}, {17, 3, 3, 2, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1}, {1, 1, 0}}));

// The gradient of the weights, in oneDNN's layouts and in those in which activations of few channels lie.
TEST_P(Convolution, HasTheGradientOfItsDefinition) {
  const Case &c = GetParam();
  std::vector<Tensor> inputs{pseudorandom(c.data, 1), pseudorandom(outputShape(c, false), 2)};
  Sums expected = weightGradient(c, inputs[0], inputs[1]);
  LibraryKernelQuery query = openQuery("convolution_weights", inputs, c.weights);
  query.desc.ints = queryFor(c, false, inputs).desc.ints;
  int64_t terms = elements(inputs[1].shape) / c.weights[0];
  expectSums(runKernel(query, inputs), expected.value, expected.magnitude, terms);
  std::vector<unsigned> channelsLast(c.data.size());
  std::iota(channelsLast.begin() + 1, channelsLast.end(), 2);
  channelsLast.back() = 1;
  for (size_t i = 0; i != 2; ++i)
    query.desc.inputs[i].layout = permutedLayout(inputs[i].shape, channelsLast);
  query.anyInputs = {};
  expectSums(runKernel(query, inputs), expected.value, expected.magnitude, terms);
}

// The same for transposed convolution, whose weights count channels the other way round.
TEST_P(Deconvolution, MatchesItsDefinition) {
  const Case &c = GetParam();
  std::vector<Tensor> inputs = inputsFor(c, true);
  Sums expected = deconvolve(c, inputs[0], inputs[1], inputs[2]);
  LibraryKernelQuery query = queryFor(c, true, inputs);
  expectSums(runKernel(query, inputs), expected.value, expected.magnitude, elements(c.weights) / c.weights[1] + 1);
  query.anyInputs = {};
  query.anyOutputs = {};
  expectSums(runKernel(query, inputs), expected.value, expected.magnitude, elements(c.weights) / c.weights[1] + 1);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Deconvolution,
    testing::Values(
        Case{"upsampling by 2", {1, 16, 5, 6}, {16, 8, 2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
        Case{"odd channels, cropped", {1, 17, 5, 5}, {17, 3, 3, 3}, {2, 2}, {1, 1}, {1, 0}, {1, 1}},
        Case{"output padding", {1, 16, 4, 4}, {16, 16, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, {1, 1}},
        Case{"grouped", {1, 8, 4, 4}, {8, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
        Case{"dilated", {1, 4, 6, 6}, {4, 5, 3, 3}, {1, 1}, {2, 2}, {1, 1}, {1, 1}},
        Case{"one dimension", {1, 3, 9}, {3, 5, 4}, {2}, {1}, {1}, {1}},
        Case{"three dimensions", {1, 4, 3, 4, 3}, {4, 3, 2, 3, 2}, {2, 1, 2}, {1, 1, 1}, {0, 1, 0}, {0, 1, 0}}));

// Grouped weights come without a dimension for the groups; a blocked layout can only be told of the shape with it.
TEST(ConvolutionWeights, AreRecordedWithTheGroupDimension) {
  Case c{"", {1, 64, 14, 14}, {64, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2};
  std::vector<Tensor> inputs = inputsFor(c, false);
  auto choice = oneDnnLibrary().choose(queryFor(c, false, inputs), 1);
  ASSERT_TRUE(choice) << choice.error().text();
  const TensorType &weights = choice->desc.inputs[1];
  ASSERT_TRUE(weights.layout);
  EXPECT_EQ(weights.shape, (Shape{2, 32, 32, 3, 3}));
  EXPECT_EQ(choice->inputBytes[1], *weights.byteSize());
}

// Blocks of a single pixel have the bytes of row-major order, but oneDNN loads only the layout that it chose.
TEST(ConvolutionOutput, KeepsItsLayoutForASinglePixel) {
  Case c{"", {1, 32, 3, 3}, {64, 32, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  std::vector<Tensor> inputs = inputsFor(c, false);
  Sums expected = convolve(c, inputs[0], inputs[1], inputs[2]);
  LibraryKernelQuery query = queryFor(c, false, inputs);
  expectSums(runKernel(query, inputs), expected.value, expected.magnitude, 289);
}

// An image of one channel has the same bytes row-major and channels-last, but oneDNN asked with row-major strides has
// plain loops for what it planned channels-last: what is recorded must be answered with the kernel that was promised.
TEST(ConvolutionInput, KeepsItsLayoutForASingleChannel) {
  Case c{"", {4, 1, 28, 28}, {20, 1, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  std::vector<Tensor> inputs = inputsFor(c, false);
  LibraryKernelQuery query = queryFor(c, false, inputs);
  auto choice = oneDnnLibrary().choose(query, 1);
  ASSERT_TRUE(choice) << choice.error().text();
  EXPECT_NE(choice->desc.implementation.substr(0, 3), "ref");
  auto again = oneDnnLibrary().choose({choice->desc, {}, {}}, 1);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->desc.implementation, choice->desc.implementation);
  Sums expected = convolve(c, inputs[0], inputs[1], inputs[2]);
  expectSums(runKernel(query, inputs), expected.value, expected.magnitude, 10);
}

//===-- Winograd's algorithm ----------------------------------------------------------------------------------===//

/// Whether oneDNN has it here, for AVX-512; for AVX2 there are tiles of our own, for constant weights.
static bool hasWinograd() { return __builtin_cpu_supports("avx512bw") && !std::getenv("ONEDNN_MAX_CPU_ISA"); }
static bool hasOwnTiles() {
  const char *limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  return !hasWinograd() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         (!limit || std::string(limit) == "AVX2");
}

/// The choice for a query that takes less by Winograd's algorithm where there is one.
static LibraryChoice chooseTiles(const LibraryKernelQuery &query, unsigned threads) {
  auto choice = oneDnnLibrary().choose(query, threads);
  if (!choice)
    throw std::runtime_error(choice.error().text());
  bool isInTiles = hasWinograd() || (hasOwnTiles() && !query.constantInputs.empty());
  EXPECT_EQ(choice->desc.operation, query.desc.operation + (isInTiles ? ".winograd" : ""));
  return *choice;
}

class InTiles : public testing::TestWithParam<Case> {};

// Forward with weights as they lie, forward with constant ones, and the gradient of the weights.
TEST_P(InTiles, MatchesItsDefinition) {
  const Case &c = GetParam();
  std::vector<Tensor> inputs = inputsFor(c, false);
  Sums expected = convolve(c, inputs[0], inputs[1], inputs[2]);
  LibraryKernelQuery query = queryFor(c, false, inputs), constant = query;
  constant.constantInputs = {false, true, true};
  std::vector<Tensor> both{inputs[0], pseudorandom(outputShape(c, false), 2)};
  LibraryKernelQuery gradient = openQuery("convolution_weights", both, c.weights);
  gradient.desc.ints = query.desc.ints;
  Sums ofWeights = weightGradient(c, both[0], both[1]);
  for (unsigned threads : {1u, 2u}) {
    int64_t terms = elements(c.weights) / c.weights[0] + 1;
    LibraryChoice unpacked = chooseTiles(query, threads), packed = chooseTiles(constant, threads);
    EXPECT_TRUE(unpacked.packings.empty());
    expectSums(runChoice(unpacked, inputs, threads), expected.value, expected.magnitude, terms);
    expectSums(runChoice(packed, inputs, threads), expected.value, expected.magnitude, terms);
    expectSums(runChoice(chooseTiles(gradient, threads), both, threads), ofWeights.value, ofWeights.magnitude,
               elements(both[1].shape) / c.weights[0]);
  }
}

// Images that tiles do not divide, and channels that vectors do not.
INSTANTIATE_TEST_SUITE_P(
    Cases, InTiles,
    testing::Values(Case{"whole tiles", {1, 32, 28, 28}, {48, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                    Case{"broken tiles", {2, 17, 23, 19}, {33, 17, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                    Case{"small images", {24, 32, 7, 7}, {32, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                    Case{"no padding", {2, 16, 26, 27}, {16, 16, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}));

// The way back to a convolution's data.
TEST(InTilesBack, MatchesItsDefinition) {
  Case c{"", {2, 32, 20, 21}, {32, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  std::vector<Tensor> inputs = inputsFor(c, true);
  Sums expected = deconvolve(c, inputs[0], inputs[1], inputs[2]);
  expectSums(runChoice(chooseTiles(queryFor(c, true, inputs), 2), inputs, 2), expected.value, expected.magnitude,
             9 * 32 + 1);
}

/// A constant convolution of one image.
static LibraryKernelQuery constantConvolution(int64_t channels, int64_t side, std::vector<Tensor> &inputs) {
  Case c{"", {1, channels, side, side}, {channels, channels, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  inputs = inputsFor(c, false);
  LibraryKernelQuery query = queryFor(c, false, inputs);
  query.constantInputs = {false, true, true};
  return query;
}

// Of a small image the transform of the weights takes longer than the convolution: once is enough.
TEST(InTilesPacked, AreWeightsOfSmallImages) {
  std::vector<Tensor> inputs;
  LibraryKernelQuery query = constantConvolution(64, 16, inputs);
  LibraryChoice choice = chooseTiles(query, 1);
  EXPECT_EQ(choice.packings.size(), hasWinograd() || hasOwnTiles() ? 1u : 0u);
  query.constantInputs = {};
  auto unpacked = oneDnnLibrary().choose(query, 1);
  ASSERT_TRUE(unpacked) << unpacked.error().text();
  EXPECT_EQ(unpacked->desc.operation, "convolution");
}

// What lies otherwise than oneDNN's tiles want it gets direct code, said to be a detour: the compiler asks again.
TEST(InTilesOtherwise, LiesTheData) {
  std::vector<Tensor> inputs;
  LibraryKernelQuery query = constantConvolution(32, 28, inputs);
  query.desc.inputs[0].layout = permutedLayout(inputs[0].shape, std::vector<unsigned>{0, 2, 3, 1});
  query.anyInputs[0] = false;
  auto choice = oneDnnLibrary().choose(query, 1);
  ASSERT_TRUE(choice) << choice.error().text();
  EXPECT_EQ(choice->desc.operation, "convolution");
  if (hasWinograd()) {
    EXPECT_EQ(choice->quality, KernelQuality::Indirect);
  }
}

// Packed weights are bytes that only their convolution understands.
TEST(InTilesRefused, AreOtherFormats) {
  if (!hasWinograd())
    GTEST_SKIP() << "oneDNN packs no weights on this processor";
  std::vector<Tensor> inputs;
  LibraryChoice choice = chooseTiles(constantConvolution(64, 8, inputs), 1);
  auto refused = [](const LibraryKernelDesc &desc, Status status, const std::string &message) {
    auto kernel = createOneDnnProvider()->load(desc, 1);
    ASSERT_FALSE(kernel) << "expected: " << message;
    EXPECT_EQ(kernel.error().status(), status) << kernel.error().text();
    EXPECT_NE(kernel.error().message().find(message), std::string::npos) << kernel.error().message();
  };
  LibraryKernelDesc convolution = choice.desc, packing = choice.packings.at(1);
  convolution.ints["format"][0] += 1;
  refused(convolution, Status::Unsupported, "compiled on this one");
  convolution = choice.desc;
  convolution.inputs[1].shape[0] -= 1;
  refused(convolution, Status::Unsupported, "made for another processor");
  convolution = choice.desc;
  convolution.operation = "convolution.fft";
  refused(convolution, Status::Unsupported, "of kind \"fft\"");
  convolution = choice.desc;
  convolution.ints["groups"] = {2};
  refused(convolution, Status::Rejected, "no groups");
  packing.ints["data"][1] = 32;
  refused(packing, Status::Rejected, "expects dense weights of shape f32[64,32,3,3]");
  packing = choice.packings.at(1);
  packing.ints["result"] = {1, 64, int64_t(1) << 40, 8};
  refused(packing, Status::Rejected, "expects values from 1");
  packing = choice.packings.at(1);
  packing.outputs[0].shape[0] *= 2;
  refused(packing, Status::Unsupported, "made for another processor");
}
