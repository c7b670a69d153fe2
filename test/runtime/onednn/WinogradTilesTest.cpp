// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions in our own tiles, which are taken on processors with AVX2 alone, here on all that have it.

#include "runtime/drivers/cpu/WinogradTiles.h"
#include "KernelHarness.h"

#include <cmath>
#include <stdexcept>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

/// The sizes of a convolution and how its images are padded: above and left, below and right.
struct Case {
  int64_t images, channels, filters, height, width, before, behind;
  unsigned threads = 1;
};

class WinogradTiles : public testing::Test {
protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
      GTEST_SKIP() << "tiles are for processors with AVX2 and FMA";
  }
};

std::vector<Tensor> inputsOf(const Case &c) {
  return {pseudorandom({c.images, c.channels, c.height, c.width}, 1), pseudorandom({c.filters, c.channels, 3, 3}, 2),
          pseudorandom({c.filters}, 3)};
}

Shape resultShape(const Case &c) {
  int64_t grown = c.before + c.behind - 2;
  return {c.images, c.filters, c.height + grown, c.width + grown};
}

LibraryKernelQuery queryOf(const Case &c, const std::vector<Tensor> &inputs) {
  LibraryKernelQuery query = openQuery("convolution.winograd", inputs, resultShape(c));
  query.desc.ints = {{"pads_begin", {c.before, c.before}}, {"pads_end", {c.behind, c.behind}}};
  query.constantInputs = {false, true, true};
  query.anyInputs[2] = false;
  return query;
}

LibraryChoice choose(const LibraryKernelQuery &query) {
  auto choice = onednn::chooseTileConvolution(query);
  if (!choice)
    throw std::runtime_error(choice.error().text());
  return *choice;
}

/// bias[o] + sum over c, i, j of x[n, c, y + i - before, x + j - before] w[o, c, i, j].
Tensor convolve(const Case &c, const std::vector<Tensor> &inputs) {
  return tabulate(resultShape(c), [&](const Shape &at) {
    double sum = inputs[2].values[at[1]];
    for (int64_t channel = 0; channel != c.channels; ++channel)
      for (int64_t i = 0; i != 3; ++i)
        for (int64_t j = 0; j != 3; ++j) {
          int64_t y = at[2] + i - c.before, x = at[3] + j - c.before;
          if (y >= 0 && y < c.height && x >= 0 && x < c.width)
            sum += double(inputs[0].at({at[0], channel, y, x})) * inputs[1].at({at[1], channel, i, j});
        }
    return sum;
  });
}

/// Of the largest result, a hundred times float32's unit in the last place.
void expectClose(const Tensor &actual, const Tensor &expected) {
  double largest = 0;
  for (float value : expected.values)
    largest = std::max(largest, std::fabs(double(value)));
  expectNear(actual, expected, 0, 100 * std::ldexp(largest, -24));
}

} // namespace

// Tiles that are whole and broken, at the edges of images and past them; channels that vectors do not divide; several
// images; more tiles than lie in memory at once; rows of 1 KiB; filters that threads share.
TEST_F(WinogradTiles, MatchTheDefinition) {
  for (const Case &c : {Case{1, 8, 8, 4, 4, 1, 1}, Case{2, 17, 13, 7, 9, 1, 1}, Case{1, 16, 24, 12, 5, 0, 0},
                        Case{3, 3, 9, 3, 3, 2, 1}, Case{1, 5, 8, 1, 1, 1, 1}, Case{1, 256, 260, 6, 6, 1, 1, 2},
                        Case{1, 16, 8, 96, 100, 1, 1, 2}, Case{1, 24, 200, 5, 5, 1, 1, 2}}) {
    std::vector<Tensor> inputs = inputsOf(c);
    LibraryChoice choice = choose(queryOf(c, inputs));
    SCOPED_TRACE(choice.desc.text());
    ASSERT_EQ(choice.packings.size(), 1u);
    expectClose(runChoice(choice, inputs, c.threads), convolve(c, inputs));
  }
}

// The padding of blocks stays zero: others read it. Seen as eight channels, those behind the fifth are padding.
TEST_F(WinogradTiles, LeaveZerosInPadding) {
  Case c{1, 16, 5, 6, 6, 1, 1};
  std::vector<Tensor> inputs = inputsOf(c);
  std::vector<float> buffer;
  LibraryChoice choice = choose(queryOf(c, inputs));
  runChoice(choice, inputs, 1, &buffer);
  for (size_t i = 0; i != buffer.size(); ++i)
    if (i % 8 >= 5) {
      ASSERT_EQ(buffer[i], 0) << "at " << i;
    }
}

// What follows is done where the results are in registers, in order.
TEST_F(WinogradTiles, FusePostOperations) {
  Case c{1, 16, 12, 9, 9, 1, 1};
  std::vector<Tensor> inputs = inputsOf(c);
  Tensor residual = pseudorandom(resultShape(c), 4), plain = convolve(c, inputs);
  LibraryKernelQuery query = queryOf(c, inputs);
  inputs.push_back(residual);
  query.desc.inputs.push_back(f32(residual.shape));
  query.anyInputs.push_back(true);
  auto expect = [&](std::vector<LibraryPostOp> postOps, const std::function<double(double, double)> &value) {
    query.desc.postOps = std::move(postOps);
    Tensor expected = plain;
    for (size_t i = 0; i != expected.values.size(); ++i)
      expected.values[i] = static_cast<float>(value(plain.values[i], residual.values[i]));
    expectClose(runChoice(choose(query), inputs), expected);
  };
  expect({{"binary_add", 0, 0, 3}, {"relu", 0, 0, -1}}, [](double y, double r) { return std::max(y + r, 0.0); });
  expect({{"relu", 0, 0, -1}, {"binary_add", 0, 0, 3}}, [](double y, double r) { return std::max(y, 0.0) + r; });
  query.desc.postOps = {{"binary_mul", 0, 0, 3}};
  EXPECT_FALSE(onednn::chooseTileConvolution(query));
}

// A plan's numbers may be anything.
TEST_F(WinogradTiles, RefuseWhatContradictsItself) {
  Case c{1, 16, 16, 8, 8, 1, 1};
  std::vector<Tensor> inputs = inputsOf(c);
  LibraryChoice choice = choose(queryOf(c, inputs));
  auto refused = [](LibraryKernelDesc desc, Status status, const std::string &message,
                    const std::function<void(LibraryKernelDesc &)> &change) {
    change(desc);
    auto kernel = createOneDnnProvider()->load(desc, 1);
    ASSERT_FALSE(kernel) << "expected: " << message;
    EXPECT_EQ(kernel.error().status(), status) << kernel.error().text();
    EXPECT_NE(kernel.error().message().find(message), std::string::npos) << kernel.error().message();
  };
  auto change = [&](Status status, const std::string &message, const std::function<void(LibraryKernelDesc &)> &how) {
    refused(choice.desc, status, message, how);
  };
  using Desc = LibraryKernelDesc;
  change(Status::Rejected, "strides, dilations and groups of 1", [](Desc &desc) { desc.ints["strides"] = {2, 1}; });
  change(Status::Rejected, "strides, dilations and groups of 1", [](Desc &desc) { desc.ints["groups"] = {4}; });
  change(Status::Rejected, "padding from 0", [](Desc &desc) { desc.ints["pads_begin"] = {-1, 1}; });
  change(Status::Rejected, "padding from 0", [](Desc &desc) { desc.ints["pads_end"] = {1}; });
  change(Status::Rejected, "a window of 3 x 3 that leads", [](Desc &desc) { desc.ints["pads_end"] = {2, 1}; });
  change(Status::Rejected, "packed weights", [](Desc &desc) { desc.inputs[1].shape[2] = 8; });
  change(Status::Rejected, "packed weights", [](Desc &desc) { desc.inputs[0].layout.reset(); });
  change(Status::Rejected, "a bias", [](Desc &desc) { desc.inputs[2].shape[0] = 8; });
  change(Status::Rejected, "at most", [](Desc &desc) {
    desc.inputs[0] = f32({1 << 23, 1 << 23, 8, 8});
    desc.outputs[0] = f32({1 << 23, 16, 8, 8});
  });
  change(Status::Rejected, "dimensions from 1", [](Desc &desc) { desc.inputs[0].shape[2] = 0; });
  change(Status::Rejected, "rectifiers and additions", [](Desc &desc) { desc.postOps = {{"tanh", 0, 0, -1}}; });
  change(Status::Rejected, "data, weights, perhaps a bias", [](Desc &desc) {
    desc.inputs.resize(2);
    desc.postOps = {{"relu", 0, 0, 0}};
  });
  change(Status::Rejected, "rectifiers and additions", [](Desc &desc) {
    desc.inputs.push_back(desc.outputs[0]);
    desc.postOps = {{"relu", 0, 0, 0}};
  });
  change(Status::Rejected, "rectifiers and additions", [](Desc &desc) {
    desc.inputs.push_back(desc.outputs[0]);
    desc.postOps = {{"binary_add", 0, 0, 0}};
  });
  change(Status::Infeasible, "bytes of scratch", [](Desc &desc) { desc.scratchBytes -= 1; });
  const Desc &packing = choice.packings.at(1);
  refused(packing, Status::Rejected, "weights f32[O, C, 3, 3]", [](Desc &desc) { desc.inputs[0].shape[0] = 32; });
  refused(packing, Status::Rejected, "weights f32[O, C, 3, 3]", [](Desc &desc) { desc.outputs[0].shape[0] = 16; });
  refused(packing, Status::Rejected, "weights [O, C, 3, 3]", [](Desc &desc) { desc.inputs.clear(); });
}
