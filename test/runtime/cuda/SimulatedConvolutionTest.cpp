// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What makes the simulated libraries fast enough for whole models, against plain loops.

#include "test/runtime/cuda/SimulatedConvolution.h"
#include "test/runtime/cuda/SimulatedProduct.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace cleave::simulated {
namespace {

int pick(std::mt19937 &random, int least, int most) { return std::uniform_int_distribution(least, most)(random); }

/// A tensor with room between its elements, as that of a part of a larger one has.
Tensor sparse(std::mt19937 &random, cudnnDataType_t type, const std::vector<int> &dims) {
  Tensor tensor{type, dims, std::vector<int>(dims.size())};
  int stride = pick(random, 1, 2);
  for (size_t d = dims.size(); d-- != 0; stride = stride * dims[d] + pick(random, 0, 3))
    tensor.strides[d] = stride;
  return tensor;
}

Problem randomProblem(std::mt19937 &random) {
  int groups = pick(random, 1, 3), samples = pick(random, 1, 3), in = pick(random, 1, 4), out = pick(random, 1, 9);
  std::vector<int> data = {samples, in * groups}, weights = {out * groups, in}, result = {samples, out * groups};
  Problem p;
  p.convolution.groups = groups;
  p.convolution.math = pick(random, 0, 1) ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
  for (int d = 0, rank = pick(random, 2, 3); d != rank; ++d) {
    int kernel = pick(random, 1, 4), dilation = pick(random, 1, 3), stride = pick(random, 1, 3);
    int pad = pick(random, 0, 4), extent = (kernel - 1) * dilation + 1;
    int size = std::max(extent - 2 * pad, 1) + pick(random, 0, 6);
    data.push_back(size);
    weights.push_back(kernel);
    result.push_back((size + 2 * pad - extent) / stride + 1);
    p.convolution.strides.push_back(stride);
    p.convolution.dilations.push_back(dilation);
    p.convolution.pads.push_back(pad);
  }
  cudnnDataType_t type = pick(random, 0, 1) ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
  p.data = sparse(random, type, data);
  p.result = sparse(random, type, result);
  p.weights = {type, weights, std::vector<int>(weights.size(), 1)};
  for (size_t d = weights.size() - 1; d-- != 0;)
    p.weights.strides[d] = p.weights.strides[d + 1] * weights[d + 1];
  return p;
}

std::vector<std::byte> randomElements(std::mt19937 &random, const Tensor &tensor) {
  std::vector<std::byte> bytes(tensor.span() * runtime::elementBytes(tensor.element()));
  for (int64_t place = 0; place != tensor.span(); ++place)
    tensor.storeAt(bytes.data(), place, std::uniform_real_distribution<double>(-1, 1)(random));
  return bytes;
}

// Every direction, with groups, pads, strides, dilations and gaps at random: the tests of the driver's kernels and of
// whole models trust the fast one.
TEST(SimulatedConvolution, AgreesWithPlainLoops) {
  std::mt19937 random(1);
  for (int i = 0; i != 150; ++i) {
    Problem p = randomProblem(random);
    ASSERT_EQ(p.check(), CUDNN_STATUS_SUCCESS);
    auto data = randomElements(random, p.data), weights = randomElements(random, p.weights),
         result = randomElements(random, p.result);
    for (Target target : {Target::Data, Target::Weights, Target::Result}) {
      std::vector<double> expected = plainSums(p, target, data.data(), weights.data(), result.data());
      std::vector<double> actual = fastSums(p, target, data.data(), weights.data(), result.data());
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t place = 0; place != actual.size(); ++place)
        ASSERT_NEAR(actual[place], expected[place], 1e-12) << "problem " << i << ", target " << int(target);
    }
  }
}

// Sizes around those of the tiles and blocks that are summed up together.
TEST(SimulatedProduct, AgreesWithPlainLoops) {
  std::mt19937 random(2);
  for (int i = 0; i != 60; ++i) {
    int64_t rows = pick(random, 1, 20), columns = pick(random, 1, 20), length = pick(random, 1, i % 2 ? 700 : 9);
    Rows left(rows, length);
    Columns right(columns, length);
    std::vector<double> expected(rows * columns, 0), a(rows * length), b(columns * length);
    for (double &value : a)
      value = std::uniform_real_distribution<double>(-1, 1)(random);
    for (double &value : b)
      value = std::uniform_real_distribution<double>(-1, 1)(random);
    for (int64_t k = 0; k != length; ++k) {
      for (int64_t row = 0; row != rows; ++row)
        left.at(row, k) = a[row * length + k];
      for (int64_t column = 0; column != columns; ++column)
        right.at(column, k) = b[column * length + k];
      for (int64_t at = 0; at != rows * columns; ++at)
        expected[at] += a[at / columns * length + k] * b[at % columns * length + k];
    }
    std::vector<double> actual = multiply(left, right);
    for (int64_t at = 0; at != rows * columns; ++at)
      ASSERT_NEAR(actual[at], expected[at], 1e-11) << rows << " x " << length << " x " << columns;
  }
}

} // namespace
} // namespace cleave::simulated
