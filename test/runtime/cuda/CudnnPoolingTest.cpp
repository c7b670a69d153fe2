// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Poolings through cuDNN's interface, against loops over what the operations mean.

#include "test/runtime/cuda/CudaLibraryHarness.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cleave::runtime::test {
namespace {

struct Pooling {
  std::vector<int64_t> kernel, strides, pads;

  /// What `kind` makes of the window at `out`.
  double at(const Values &data, const std::string &kind, const Shape &out) const {
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    int inside = 0, all = 0;
    forEach(kernel, [&](const Shape &tap) {
      Shape in = out;
      bool isInside = true;
      for (size_t d = 0; d != tap.size(); ++d) {
        in[d + 2] = out[d + 2] * strides[d] - pads[d] + tap[d];
        isInside &= in[d + 2] >= 0 && in[d + 2] < data.shape[d + 2];
      }
      ++all;
      if (!isInside)
        return;
      double value = data.at(in);
      ++inside;
      sum += value;
      largest = std::isnan(value) || std::isnan(largest) ? NAN : std::max(largest, value);
    });
    return kind == "max" ? largest : kind == "avg_include" ? sum / all : sum / inside;
  }
};

int64_t pick(std::mt19937 &random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

// Windows, strides and pads at random in 1 to 3 dimensions; the averages differ at the border.
TEST(CudnnPooling, ComputesWindows) {
  std::mt19937 random(1);
  for (int i = 0; i != 60; ++i) {
    Pooling p;
    Shape data = {pick(random, 1, 2), pick(random, 1, 3)}, output = data;
    for (int64_t d = 0, rank = pick(random, 1, 3); d != rank; ++d) {
      int64_t kernel = pick(random, 1, 3), pad = pick(random, 0, kernel - 1), stride = pick(random, 1, 3);
      int64_t size = kernel + pick(random, 0, 4);
      p.kernel.push_back(kernel);
      p.strides.push_back(stride);
      p.pads.push_back(pad);
      data.push_back(size);
      output.push_back((size + 2 * pad - kernel) / stride + 1);
    }
    std::vector<Values> inputs = {randomValues(random, data)};
    for (const char *kind : {"max", "avg_include", "avg_exclude"}) {
      LibraryKernelDesc desc = describe(std::string("pooling.") + kind, inputs, output);
      desc.ints["kernel"] = p.kernel;
      desc.ints["strides"] = p.strides;
      desc.ints["pads_begin"] = desc.ints["pads_end"] = p.pads;
      SCOPED_TRACE(desc.text());
      expectNear(runLibraryKernel(desc, inputs),
                 tabulate(output, [&](const Shape &out) { return p.at(inputs[0], kind, out); }), 1e-6);
    }
  }
}

// As in our own kernels, NaN is the largest element of a window.
TEST(CudnnPooling, KeepsNaN) {
  std::vector<Values> inputs = {{{1, 1, 4}, {1, NAN, 2, 3}}};
  LibraryKernelDesc desc = describe("pooling.max", inputs, {1, 1, 2});
  desc.ints["kernel"] = desc.ints["strides"] = {2};
  Values result = runLibraryKernel(desc, inputs);
  EXPECT_TRUE(std::isnan(result.values[0]));
  EXPECT_EQ(result.values[1], 3);
}

} // namespace
} // namespace cleave::runtime::test
