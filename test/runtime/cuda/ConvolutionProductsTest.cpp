// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions with windows of one element as products, against loops over what the operations mean.

#include "test/runtime/cuda/ConvolutionWindow.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

#include <algorithm>

namespace cleave::runtime::test {
namespace {

/// cuDNN computes no convolution until the end of a scope: products are all there is.
struct WithoutCudnn {
  WithoutCudnn() { simulated::libraryRefusals.convolutions = true; }
  ~WithoutCudnn() { simulated::libraryRefusals = {}; }
};

double bound(ElementType element) { return element == ElementType::BF16 ? 1.0 / 128 : 1e-6; }

void expectProduct(const ConvolutionCase &c, ElementType element, std::optional<uint64_t> scratch = std::nullopt) {
  SCOPED_TRACE(c.desc.text());
  LibraryRun kernel(c.desc, c.inputs, -1, scratch);
  kernel.choose();
  EXPECT_EQ(kernel.kept(), "product");
  expectNear(kernel.run(), c.expected, bound(element));
}

// Strides, dilations and 1 to 3 dimensions at random, in all directions and both element types. Where the window steps
// over data, what is between is left out forward and zero on the way back.
TEST(ConvolutionProducts, ComputeEveryDirection) {
  WithoutCudnn without;
  std::mt19937 random(1);
  for (int i = 0; i != 120; ++i) {
    Window window = randomWindow(random, /*largestKernel=*/1);
    ElementType element = random() % 3 ? ElementType::F32 : ElementType::BF16;
    for (const char *operation : {"convolution", "deconvolution", "convolution_weights"})
      expectProduct(convolutionCase(random, window, operation, element), element);
  }
}

// What follows, with the addition where the result goes and elsewhere.
TEST(ConvolutionProducts, ComputeEpilogues) {
  WithoutCudnn without;
  std::mt19937 random(2);
  for (ElementType element : {ElementType::F32, ElementType::BF16})
    for (int64_t stride : {1, 2})
      for (int inPlace : {-1, 3})
        for (bool added : {false, true})
          for (bool relu : {false, true}) {
            if (inPlace == 3 && !added)
              continue;
            Window window{{2, 3, 5, 5}, {4, 3, 1, 1}, {2, 4, 5, 5}, {stride, stride}, {1, 1}, {0, 0}};
            window.result[2] = window.result[3] = 4 / stride + 1;
            ConvolutionCase c = convolutionCase(random, window, "convolution", element);
            c.inputs.push_back(randomValues(random, {4}, element));
            if (added)
              c.inputs.push_back(randomValues(random, window.result, element));
            c.desc = describe("convolution", c.inputs, window.result, element);
            window.describeIn(c.desc);
            if (added)
              c.desc.postOps.push_back({"binary_add", 0, 0, 3});
            if (relu)
              c.desc.postOps.push_back({"relu"});
            Values sums = c.expected;
            c.expected = tabulate(window.result, [&](const Shape &at) {
              double value = sums.at(at) + c.inputs[2].values[at[1]] + (added ? c.inputs[3].at(at) : 0);
              return relu ? std::max(value, 0.0) : value;
            });
            SCOPED_TRACE(c.desc.text());
            LibraryRun kernel(c.desc, c.inputs, inPlace);
            kernel.choose();
            EXPECT_EQ(kernel.kept(), "product");
            expectNear(kernel.run(), c.expected, bound(element));
          }
}

// The workspace may have room for the partial sums of all samples, of some, or of one: 6 samples, of 4 x 4 weights.
// bfloat16 is summed up in float32 all the same.
TEST(ConvolutionProducts, SumUpInTheWorkspaceThereIs) {
  WithoutCudnn without;
  std::mt19937 random(3);
  for (ElementType element : {ElementType::F32, ElementType::BF16})
    for (int64_t stride : {1, 2})
      for (uint64_t parts : {1, 2, 3, 5, 6}) {
        Window window{{6, 4, 8, 8}, {4, 4, 1, 1}, {6, 4, 8, 8}, {stride, stride}, {1, 1}, {0, 0}};
        window.result[2] = window.result[3] = 8 / stride;
        uint64_t compact = stride == 1 ? 0 : 6 * 4 * 16 * elementBytes(element);
        ConvolutionCase c = convolutionCase(random, window, "convolution_weights", element);
        expectProduct(c, element, compact + parts * 64);
        // One product for each sample of a partial sum, the sum of these, and what the window meets.
        int64_t fitting = parts == 5 ? 3 : static_cast<int64_t>(parts);
        LibraryRun kernel(c.desc, c.inputs, -1, compact + parts * 64);
        kernel.choose();
        int before = simulatedKernels();
        kernel.run();
        EXPECT_EQ(simulatedKernels() - before, 6 / fitting + 1 + (stride == 2));
      }
}

// Too small a workspace leaves cuDNN; so do a larger window, padding and groups.
TEST(ConvolutionProducts, LeaveTheRestToCudnn) {
  std::mt19937 random(4);
  auto kept = [&](const Window &window, const char *operation, std::optional<uint64_t> scratch) {
    ConvolutionCase c = convolutionCase(random, window, operation, ElementType::F32);
    LibraryRun kernel(c.desc, c.inputs, -1, scratch);
    kernel.choose();
    expectNear(kernel.run(), c.expected, 1e-6);
    return kernel.kept().value_or("").substr(0, 7);
  };
  const Window one{{6, 4, 8, 8}, {4, 4, 1, 1}, {6, 4, 8, 8}, {1, 1}, {1, 1}, {0, 0}};
  EXPECT_EQ(kept(one, "convolution_weights", 63), "routine");
  Window stepping = one;
  stepping.strides = {2, 2};
  stepping.result = {6, 4, 4, 4};
  EXPECT_EQ(kept(stepping, "convolution", 1535), "routine");
  Window padded = one;
  padded.pads = {1, 1};
  padded.result = {6, 4, 10, 10};
  EXPECT_EQ(kept(padded, "convolution", {}), "routine");
  Window grouped = one;
  grouped.groups = 2;
  grouped.weights = {4, 2, 1, 1};
  EXPECT_EQ(kept(grouped, "convolution_weights", {}), "routine");
}

// The fastest way is taken: a product where cuDNN's gradient has only its slow algorithm, and not where cuDNN is
// faster. Earlier versions' choices, of which products were none, do not count.
TEST(ConvolutionProducts, AreChosenByMeasuring) {
  std::mt19937 random(5);
  const Window window{{2, 3, 4, 4}, {5, 3, 1, 1}, {2, 5, 4, 4}, {1, 1}, {1, 1}, {0, 0}};
  ConvolutionCase forward = convolutionCase(random, window, "convolution", ElementType::F32);
  LibraryRun fast(forward.desc, forward.inputs, -1, 0);
  fast.choose();
  EXPECT_EQ(fast.kept(), "routine 0 3 0");
  ConvolutionCase weights = convolutionCase(random, window, "convolution_weights", ElementType::F32);
  LibraryRun slow(weights.desc, weights.inputs, -1, 128);
  slow.keep("4 3 0");
  slow.choose();
  EXPECT_EQ(slow.kept(), "product");
  EXPECT_EQ(slow.time(), 6);
  expectNear(slow.run(), weights.expected, 1e-6);
}

// A product that was kept is taken without another search by cuDNN; where cuBLASLt then refuses it, cuDNN searches.
TEST(ConvolutionProducts, AreRemembered) {
  std::mt19937 random(6);
  const Window window{{2, 3, 4, 5}, {5, 3, 1, 1}, {2, 5, 4, 5}, {1, 1}, {1, 1}, {0, 0}};
  ConvolutionCase c = convolutionCase(random, window, "convolution", ElementType::F32);
  LibraryRun kernel(c.desc, c.inputs);
  kernel.keep("product");
  int before = simulated::measuredSearches;
  kernel.choose();
  EXPECT_EQ(simulated::measuredSearches, before);
  expectNear(kernel.run(), c.expected, 1e-6);
  LibraryRun other(c.desc, c.inputs);
  simulated::libraryRefusals.heuristic = {CUBLASLT_EPILOGUE_DEFAULT};
  other.choose();
  simulated::libraryRefusals = {};
  EXPECT_EQ(simulated::measuredSearches, before + 1);
  EXPECT_EQ(other.kept(), "routine 0 3 0");
  expectNear(other.run(), c.expected, 1e-6);
}

// float32 is exact, and rounded to TF32 where a plan asks for it.
TEST(ConvolutionProducts, RoundToTf32WhenAsked) {
  WithoutCudnn without;
  std::mt19937 random(7);
  const Window window{{2, 8, 4, 4}, {5, 8, 1, 1}, {2, 5, 4, 4}, {1, 1}, {1, 1}, {0, 0}};
  for (const char *operation : {"convolution", "deconvolution", "convolution_weights"}) {
    ConvolutionCase c = convolutionCase(random, window, operation, ElementType::F32);
    for (int tf32 : {0, 1}) {
      c.desc.ints["tf32"] = {tf32};
      LibraryRun kernel(c.desc, c.inputs);
      kernel.choose();
      int before = simulated::tf32Products;
      kernel.run();
      EXPECT_EQ(simulated::tf32Products - before, tf32) << operation;
    }
  }
}

} // namespace
} // namespace cleave::runtime::test
