// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of products whose sizes let them be tiled in registers, at random sizes and orders of dimensions, with
// elementwise operators behind them, against plain loops.

#include "test/property/KernelCases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cleave::test {
namespace {

int64_t below(Random &random, int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); }

std::string array(const Shape &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}

/// An operation of the body: "%NAME = dfg.OPERATOR ATTRIBUTES : TYPES".
std::string line(const std::string &name, const std::string &operation, const std::string &types) {
  return "  %" + name + " = dfg." + operation + " : " + types + "\n";
}

Shape permuted(const Shape &shape, const Shape &permutation) {
  Shape result;
  for (int64_t dim : permutation)
    result.push_back(shape[dim]);
  return result;
}

/// A tensor with its dimensions in another order.
Tensor permuted(const Tensor &tensor, const Shape &permutation) {
  Tensor result(tensor.getElement(), permuted(tensor.getShape(), permutation));
  forEachIndex(result.getShape(), [&](const Shape &index) {
    Shape from(index.size());
    for (size_t i = 0; i < index.size(); ++i)
      from[permutation[i]] = index[i];
    result.setReal(result.position(index), tensor.real(from));
  });
  return result;
}

Shape inverse(const Shape &permutation) {
  Shape result(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    result[permutation[i]] = static_cast<int64_t>(i);
  return result;
}

void allowRounding(KernelCase &kernelCase, const std::string &element, int64_t terms) {
  kernelCase.absolute = static_cast<double>(terms + 1) * 4 * (element == "f64" ? 1e-15 : 2.5e-7);
  kernelCase.relative = std::ldexp(1.0, -precisionOf(element));
}

// A product of matrices that lie in any order, and its rectified sum with one value a column.
TEST(Tile, Products) {
  Random random(7);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f32", "f64", "i32", "i64"})
    for (int i = 0; i < 12; ++i) {
      int64_t m = (1 + below(random, 4)) * (below(random, 2) ? 16 : 5), n = (1 + below(random, 3)) * 16;
      int64_t k = (1 + below(random, 3)) * (below(random, 2) ? 16 : 7);
      bool swapLhs = below(random, 2), swapRhs = below(random, 2), goesOn = below(random, 2);
      Tensor lhs(element, swapLhs ? Shape{k, m} : Shape{m, k}), rhs(element, swapRhs ? Shape{n, k} : Shape{k, n});
      Tensor bias(element, {n}), result(element, {m, n});
      for (Tensor *tensor : {&lhs, &rhs, &bias})
        tensor->fill(random, -2, 2);
      forEachIndex({m, n}, [&](const Shape &index) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j)
          sum += lhs.real(swapLhs ? Shape{j, index[0]} : Shape{index[0], j}) *
                 rhs.real(swapRhs ? Shape{index[1], j} : Shape{j, index[1]});
        result.setReal(result.position(index), goesOn ? std::max(sum + bias.real(index[1]), 0.0) : sum);
      });
      std::string product = "dot_general %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = " +
                            array({swapLhs ? 0 : 1}) + ", rhs_contracting = " + array({swapRhs ? 1 : 0}) + "}";
      std::string body =
          line(goesOn ? "0" : "y0", product, "(" + lhs.type() + ", " + rhs.type() + ") -> " + result.type());
      if (goesOn)
        body += line("1", "add %0, %c", "(" + result.type() + ", " + bias.type() + ") -> " + result.type()) +
                line("y0", "relu %1", "(" + result.type() + ") -> " + result.type());
      KernelCase kernelCase{body, {lhs, rhs}, {result}};
      if (goesOn)
        kernelCase.inputs.push_back(bias);
      allowRounding(kernelCase, element, k);
      cases.push_back(std::move(kernelCase));
    }
  expectKernels(cases);
}

/// A convolution without padding: all sizes, and loops over the elements that meet.
struct Convolution {
  explicit Convolution(Random &random)
      : samples((1 + below(random, 3)) * 16), in(1 + below(random, 6)), out(1 + below(random, 12)) {
    for (int i = 0; i < 2; ++i) {
      window.push_back(1 + below(random, 4));
      strides.push_back(1 + below(random, 2));
      narrow.push_back(1 + below(random, 6));
      wide.push_back((narrow[i] - 1) * strides[i] + window[i]);
    }
  }

  Shape input() const { return {samples, in, wide[0], wide[1]}; }
  Shape filter() const { return {out, in, window[0], window[1]}; }
  Shape result() const { return {samples, out, narrow[0], narrow[1]}; }
  std::string attributes() const {
    return "strides = " + array(strides) + ", pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>";
  }

  /// Calls `body` with indices of an input element, a filter element, and the result element that they meet in.
  template <typename Body> void forEachProduct(Body body) const {
    forEachIndex(result(), [&](const Shape &to) {
      forEachIndex({in, window[0], window[1]}, [&](const Shape &at) {
        body(Shape{to[0], at[0], to[2] * strides[0] + at[1], to[3] * strides[1] + at[2]},
             Shape{to[1], at[0], at[1], at[2]}, to);
      });
    });
  }

  int64_t samples, in, out;
  Shape window, strides, narrow, wide;
};

/// Sums of products, kept wide until the end.
struct Sums {
  explicit Sums(const Shape &shape) : tensor("f64", shape) {}
  void add(const Shape &index, double value) {
    int64_t position = tensor.position(index);
    tensor.setReal(position, tensor.real(position) + value);
  }
  Tensor as(const std::string &element) const {
    Tensor result(element, tensor.getShape());
    for (int64_t i = 0; i < result.size(); ++i)
      result.setReal(i, tensor.real(i));
    return result;
  }
  Tensor tensor;
};

const Shape samplesInnermost = {1, 2, 3, 0};

/// The line that brings what lies with the samples innermost into its own order.
std::string seen(const std::string &name, const std::string &argument, const Tensor &lies, const Tensor &is) {
  return line(name, "transpose %" + argument + " {permutation = " + array(inverse(samplesInnermost)) + "}",
              "(" + lies.type() + ") -> " + is.type());
}

// A convolution with bias and rectifier, and both of its gradients, on images that lie with the samples innermost.
TEST(Tile, ConvolutionsBySamples) {
  Random random(11);
  std::vector<KernelCase> cases;
  for (int i = 0; i < 16; ++i) {
    Convolution conv(random);
    const std::string element = i % 4 == 0 ? "f64" : "f32";
    Tensor input(element, conv.input()), filter(element, conv.filter()), cotangent(element, conv.result());
    Tensor bias(element, {conv.out, 1, 1});
    for (Tensor *tensor : {&input, &filter, &cotangent, &bias})
      tensor->fill(random, -2, 2);
    Sums result(conv.result()), inputGradient(conv.input()), filterGradient(conv.filter());
    conv.forEachProduct([&](const Shape &from, const Shape &by, const Shape &to) {
      result.add(to, input.real(from) * filter.real(by));
      inputGradient.add(from, cotangent.real(to) * filter.real(by));
      filterGradient.add(by, input.real(from) * cotangent.real(to));
    });
    forEachIndex(conv.result(), [&](const Shape &at) {
      int64_t position = result.tensor.position(at);
      result.tensor.setReal(position, std::max(result.tensor.real(position) + bias.real({at[1], 0, 0}), 0.0));
    });
    Tensor inputLies = permuted(input, samplesInnermost), cotangentLies = permuted(cotangent, samplesInnermost);
    std::string back = " {permutation = " + array(samplesInnermost) + "}", wide = input.type(),
                narrow = cotangent.type();
    auto add = [&](const std::string &body, std::vector<Tensor> inputs, Tensor expected, int64_t terms) {
      KernelCase kernelCase{body, std::move(inputs), {std::move(expected)}};
      allowRounding(kernelCase, element, terms);
      cases.push_back(std::move(kernelCase));
    };
    int64_t taps = conv.window[0] * conv.window[1], spots = conv.samples * conv.narrow[0] * conv.narrow[1];
    add(seen("0", "a", inputLies, input) +
            line("1", "conv %0, %b {" + conv.attributes() + "}", "(" + wide + ", " + filter.type() + ") -> " + narrow) +
            line("2", "add %1, %c", "(" + narrow + ", " + bias.type() + ") -> " + narrow) +
            line("3", "relu %2", "(" + narrow + ") -> " + narrow) +
            line("y0", "transpose %3" + back, "(" + narrow + ") -> " + cotangentLies.type()),
        {inputLies, filter, bias}, permuted(result.as(element), samplesInnermost), conv.in * taps);
    add(seen("0", "a", cotangentLies, cotangent) +
            line("1", "conv_transpose %0, %b {" + conv.attributes() + ", output_padding = array<i64: 0, 0>}",
                 "(" + narrow + ", " + filter.type() + ") -> " + wide) +
            line("y0", "transpose %1" + back, "(" + wide + ") -> " + inputLies.type()),
        {cotangentLies, filter}, permuted(inputGradient.as(element), samplesInnermost), conv.out * taps);
    add(seen("0", "a", inputLies, input) + seen("1", "b", cotangentLies, cotangent) +
            line("2", "conv_filter_gradient %0, %1 {" + conv.attributes() + "}",
                 "(" + wide + ", " + narrow + ") -> " + filter.type()) +
            line("y0", "add %2, %c", "(" + filter.type() + ", " + filter.type() + ") -> " + filter.type()),
        {inputLies, cotangentLies, Tensor(element, conv.filter()).fill(random, 0, 0)}, filterGradient.as(element),
        spots);
  }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
