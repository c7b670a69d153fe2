// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over windows.

#include "test/runtime/cuda/ConvolutionWindow.h"

#include <algorithm>

namespace cleave::runtime::test {

void Window::forEachTap(const std::function<void(const Shape &, const Shape &, const Shape &)> &body) const {
  forEach(result, [&](const Shape &out) {
    Shape taps(weights.begin() + 1, weights.end());
    forEach(taps, [&](const Shape &tap) {
      Shape in = {out[0], out[1] / (weights[0] / groups) * weights[1] + tap[0]}, weight = {out[1]};
      weight.insert(weight.end(), tap.begin(), tap.end());
      for (size_t d = 0; d != strides.size(); ++d) {
        in.push_back(out[d + 2] * strides[d] + tap[d + 1] * dilations[d] - pads[d]);
        if (in.back() < 0 || in.back() >= data[d + 2])
          return;
      }
      body(in, weight, out);
    });
  });
}

void Window::describeIn(LibraryKernelDesc &desc) const {
  desc.ints["strides"] = strides;
  desc.ints["dilations"] = dilations;
  desc.ints["pads_begin"] = desc.ints["pads_end"] = pads;
  desc.ints["groups"] = {groups};
}

static int64_t pick(std::mt19937 &random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

Window randomWindow(std::mt19937 &random, int64_t largestKernel) {
  Window w;
  bool isPlain = largestKernel == 1;
  w.groups = pick(random, 1, isPlain ? 1 : 2);
  int64_t samples = pick(random, 1, isPlain ? 4 : 2), in = pick(random, 1, isPlain ? 5 : 2);
  int64_t out = w.groups * pick(random, 1, isPlain ? 5 : 2);
  w.data = {samples, in * w.groups};
  w.weights = {out, in};
  w.result = {samples, out};
  for (int64_t d = 0, rank = pick(random, 1, 3); d != rank; ++d) {
    int64_t kernel = pick(random, 1, largestKernel), dilation = pick(random, 1, 2), stride = pick(random, 1, 3);
    int64_t pad = isPlain ? 0 : pick(random, 0, 2), extent = (kernel - 1) * dilation + 1;
    int64_t size = std::max<int64_t>(extent - 2 * pad, 1) + pick(random, 0, 4);
    w.data.push_back(size);
    w.weights.push_back(kernel);
    w.result.push_back((size + 2 * pad - extent) / stride + 1);
    w.strides.push_back(stride);
    w.dilations.push_back(dilation);
    w.pads.push_back(pad);
  }
  return w;
}

/// Weights as codegen hands them over: those of groups have a dimension of groups in front.
static Shape groupedShape(const Window &w) {
  Shape shape = w.weights;
  if (w.groups != 1) {
    shape[0] /= w.groups;
    shape.insert(shape.begin(), w.groups);
  }
  return shape;
}

ConvolutionCase convolutionCase(std::mt19937 &random, const Window &window, const std::string &operation,
                                ElementType element) {
  Values data = randomValues(random, window.data, element), weights = randomValues(random, window.weights, element),
         result = randomValues(random, window.result, element);
  ConvolutionCase c;
  Values grouped{groupedShape(window), weights.values};
  c.inputs = operation == "convolution"     ? std::vector{data, grouped}
             : operation == "deconvolution" ? std::vector{result, grouped}
                                            : std::vector{data, result};
  c.expected = tabulate(operation == "convolution"     ? window.result
                        : operation == "deconvolution" ? window.data
                                                       : window.weights,
                        [](const Shape &) { return 0; });
  window.forEachTap([&](const Shape &in, const Shape &weight, const Shape &out) {
    if (operation == "convolution")
      c.expected.at(out) += data.at(in) * weights.at(weight);
    else if (operation == "deconvolution")
      c.expected.at(in) += result.at(out) * weights.at(weight);
    else
      c.expected.at(weight) += data.at(in) * result.at(out);
  });
  c.desc = describe(operation, c.inputs, c.expected.shape, element);
  window.describeIn(c.desc);
  return c;
}

} // namespace cleave::runtime::test
