// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a convolution means, by its products: for tests of all ways to compute one.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_CONVOLUTIONWINDOW_H
#define CLEAVE_TEST_RUNTIME_CUDA_CONVOLUTIONWINDOW_H

#include "test/runtime/cuda/CudaLibraryHarness.h"

namespace cleave::runtime::test {

/// A forward convolution: data [N, C, ...], weights [O, C/G, ...], result [N, O, ...].
struct Window {
  Shape data, weights, result;
  std::vector<int64_t> strides, dilations, pads;
  int64_t groups = 1;

  /// Calls `body(data's index, weights' index, result's index)` where a tap of the window meets an element.
  void forEachTap(const std::function<void(const Shape &, const Shape &, const Shape &)> &body) const;
  void describeIn(LibraryKernelDesc &desc) const;
};

/// Up to three spatial dimensions with windows of up to `largestKernel` elements; with one element alone there are no
/// groups and no padding.
Window randomWindow(std::mt19937 &random, int64_t largestKernel);

/// A kernel of one direction, and what comes out.
struct ConvolutionCase {
  std::vector<Values> inputs;
  LibraryKernelDesc desc;
  Values expected;
};

/// `operation` ("convolution", "deconvolution" or "convolution_weights") of random values.
ConvolutionCase convolutionCase(std::mt19937 &random, const Window &window, const std::string &operation,
                                ElementType element);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_CUDA_CONVOLUTIONWINDOW_H
