// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax, layer, batch and local response normalization against their formulas.

#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

#include <cmath>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

// Softmax over the last, a middle and the first dimension, with large inputs that overflow without the usual shift.
TEST(Softmax, MatchesItsFormula) {
  std::vector<Tensor> inputs{pseudorandom({3, 17, 5}, 1, -200, 200)};
  for (int64_t axis : {0, 1, 2})
    for (std::string operation : {"softmax", "log_softmax"}) {
      auto along = [&](Shape index, auto value) {
        for (index[axis] = 0; index[axis] != inputs[0].shape[axis]; ++index[axis])
          value(inputs[0].at(index));
      };
      Tensor expected = tabulate(inputs[0].shape, [&](const Shape &index) {
        double largest = -1e30, sum = 0;
        along(index, [&](double x) { largest = std::max(largest, x); });
        along(index, [&](double x) { sum += std::exp(x - largest); });
        double shifted = inputs[0].at(index) - largest;
        return operation == "softmax" ? std::exp(shifted) / sum : shifted - std::log(sum);
      });
      LibraryKernelQuery query = openQuery(operation, inputs, inputs[0].shape);
      query.desc.ints["axis"] = {axis - 3};
      // x - max rounds at 400 * 2^-24 where the inputs are that far apart.
      expectNear(runKernel(query, inputs), expected, 2e-5, operation == "softmax" ? 1e-6 : 400 * std::ldexp(1.0, -24));
    }
}

// Over one or several last dimensions; scale and shift are optional.
TEST(LayerNorm, MatchesItsFormula) {
  for (int64_t axis : {1, 2})
    for (size_t operands : {1, 2, 3}) {
      Shape shape{3, 4, 17};
      int64_t inner = axis == 1 ? 68 : 17;
      Shape normalized(shape.begin() + axis, shape.end());
      std::vector<Tensor> inputs{pseudorandom(shape, 1, -3, 5), pseudorandom(normalized, 2),
                                 pseudorandom(normalized, 3)};
      inputs.resize(operands);
      Tensor expected = tabulate(shape, [&](const Shape &index) {
        int64_t flat = (index[0] * 4 + index[1]) * 17 + index[2], first = flat / inner * inner;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i != inner; ++i)
          mean += inputs[0].values[first + i] / inner;
        for (int64_t i = 0; i != inner; ++i)
          variance += std::pow(inputs[0].values[first + i] - mean, 2) / inner;
        double value = (inputs[0].values[flat] - mean) / std::sqrt(variance + 1e-3);
        value *= operands > 1 ? inputs[1].values[flat - first] : 1;
        return value + (operands > 2 ? inputs[2].values[flat - first] : 0);
      });
      LibraryKernelQuery query = openQuery("layer_norm", inputs, shape);
      query.desc.ints["axis"] = {axis};
      query.desc.reals["epsilon"] = {1e-3};
      expectNear(runKernel(query, inputs), expected, 1e-5, 1e-5);
    }
}

// With given statistics, blocked and row-major, and channels that do not fill a block.
TEST(BatchNorm, MatchesItsFormula) {
  for (Shape shape : {Shape{2, 17, 5, 3}, Shape{4, 6}, Shape{1, 32, 4, 4, 3}}) {
    Shape channels{shape[1]};
    std::vector<Tensor> inputs{pseudorandom(shape, 1), pseudorandom(channels, 2), pseudorandom(channels, 3),
                               pseudorandom(channels, 4), pseudorandom(channels, 5, 0.1f, 2)};
    Tensor expected = tabulate(shape, [&](const Shape &index) {
      int64_t c = index[1];
      return (inputs[0].at(index) - inputs[3].values[c]) / std::sqrt(inputs[4].values[c] + 1e-5) * inputs[1].values[c] +
             inputs[2].values[c];
    });
    LibraryKernelQuery query = openQuery("batch_norm", inputs, shape);
    expectNear(runKernel(query, inputs), expected, 1e-5, 1e-6);
    query.anyInputs = query.anyOutputs = {};
    expectNear(runKernel(query, inputs), expected, 1e-5, 1e-6);
  }
}

// The window ends at the first and last channel, and alpha is divided by its size as in ONNX.
TEST(Lrn, MatchesItsFormula) {
  for (int64_t size : {3, 5}) {
    std::vector<Tensor> inputs{pseudorandom({2, 33, 4, 5}, 1, -3, 3)};
    Tensor expected = tabulate(inputs[0].shape, [&](const Shape &index) {
      double sum = 0;
      for (int64_t c = index[1] - size / 2; c <= index[1] + size / 2; ++c)
        if (c >= 0 && c < 33)
          sum += std::pow(inputs[0].at({index[0], c, index[2], index[3]}), 2);
      return inputs[0].at(index) / std::pow(2 + 0.5 / size * sum, 0.75);
    });
    LibraryKernelQuery query = openQuery("lrn", inputs, inputs[0].shape);
    query.desc.ints["size"] = {size};
    query.desc.reals = {{"alpha", {0.5}}, {"beta", {0.75}}, {"k", {2}}};
    expectNear(runKernel(query, inputs), expected, 1e-5, 1e-6);
    query.anyInputs = query.anyOutputs = {};
    expectNear(runKernel(query, inputs), expected, 1e-5, 1e-6);
  }
}
