// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions through cuDNN's interface, against loops over what the operations mean.

#include "test/runtime/cuda/ConvolutionWindow.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

#include <algorithm>
#include <cmath>

namespace cleave::runtime::test {
namespace {

double bound(ElementType element) { return element == ElementType::BF16 ? 1.0 / 128 : 1e-6; }

void expectRandomWindows(const std::string &operation, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i != 60; ++i) {
    Window window = randomWindow(random, /*largestKernel=*/3);
    ElementType element = random() % 3 ? ElementType::F32 : ElementType::BF16;
    ConvolutionCase c = convolutionCase(random, window, operation, element);
    SCOPED_TRACE(c.desc.text());
    expectNear(runLibraryKernel(c.desc, c.inputs), c.expected, bound(element));
  }
}

// Strides, dilations, groups, pads and 1 to 3 dimensions at random, in both element types. A deconvolution scatters
// each element through the window: the gradient of a convolution's data.
TEST(CudnnConvolution, ComputesForward) { expectRandomWindows("convolution", 1); }
TEST(CudnnConvolution, ComputesDeconvolutions) { expectRandomWindows("deconvolution", 2); }
TEST(CudnnConvolution, ComputesGradientsOfWeights) { expectRandomWindows("convolution_weights", 3); }

/// A convolution of one tap with all that may follow it, and what comes out.
struct Fused {
  LibraryKernelDesc desc;
  std::vector<Values> inputs;
  Values expected;
};

Fused fused(std::mt19937 &random, int bias, bool added, bool relu) {
  Fused f;
  f.inputs = {randomValues(random, {2, 3, 4, 4}), randomValues(random, {5, 3, 1, 1})};
  Values perChannel = randomValues(random, {5}), other = randomValues(random, {2, 5, 4, 4});
  std::vector<LibraryPostOp> postOps;
  if (bias == 2)
    postOps.push_back({"binary_add", 0, 0, 2});
  f.inputs.push_back(bias == 1 ? perChannel : Values{{1, 5, 1, 1}, perChannel.values});
  if (added) {
    postOps.push_back({"binary_add", 0, 0, 3});
    f.inputs.push_back(other);
  }
  if (relu)
    postOps.push_back({"relu"});
  f.desc = describe("convolution", f.inputs, {2, 5, 4, 4});
  f.desc.postOps = postOps;
  f.expected = tabulate({2, 5, 4, 4}, [&](const Shape &at) {
    double sum = perChannel.values[at[1]] + (added ? other.at(at) : 0);
    for (int64_t c = 0; c != 3; ++c)
      sum += f.inputs[0].at({at[0], c, at[2], at[3]}) * f.inputs[1].at({at[1], c, 0, 0});
    return relu ? std::max(sum, 0.0) : sum;
  });
  return f;
}

// Bias as an operand and as a post operation, with and without what follows, in one routine and in several: without an
// activation the former is faster on the simulated GPU, and needs a workspace.
TEST(CudnnConvolution, ComputesEpilogues) {
  std::mt19937 random(4);
  for (int bias : {1, 2})
    for (bool added : {false, true})
      for (bool relu : {false, true})
        for (uint64_t scratch : {uint64_t(0), uint64_t(1) << 10, uint64_t(1) << 20}) {
          Fused f = fused(random, bias, added, relu);
          LibraryRun kernel(f.desc, f.inputs, -1, scratch);
          kernel.choose();
          SCOPED_TRACE(f.desc.text());
          expectNear(kernel.run(), f.expected, 1e-6);
        }
}

// A residual that lies where the result goes must be read before it is overwritten.
TEST(CudnnConvolution, AddsInPlace) {
  std::mt19937 random(5);
  for (bool relu : {false, true}) {
    Fused f = fused(random, 1, /*added=*/true, relu);
    expectNear(runLibraryKernel(f.desc, f.inputs, /*inPlace=*/3), f.expected, 1e-6);
  }
}

/// A gradient of weights of a window of two elements, which is no product; another one for each `channels`.
struct WeightsGradient {
  std::vector<Values> inputs;
  LibraryKernelDesc desc;
  Values expected;

  WeightsGradient(std::mt19937 &random, int64_t channels)
      : inputs({randomValues(random, {2, channels, 4, 5}), randomValues(random, {2, 5, 4, 4})}),
        desc(describe("convolution_weights", inputs, {5, channels, 1, 2})),
        expected(tabulate({5, channels, 1, 2}, [&](const Shape &at) {
          double sum = 0;
          forEach({2, 4, 4}, [&](const Shape &from) {
            sum += inputs[0].at({from[0], at[1], from[1], from[2] + at[3]}) *
                   inputs[1].at({from[0], at[0], from[1], from[2]});
          });
          return sum;
        })) {}
};

// The simulated library is fastest with TF32 and, backwards, with algorithms that add up in any order. Neither may be
// chosen: float32 is exact, and a step gives the same numbers each time.
TEST(CudnnConvolution, ChoosesExactAndRepeatableAlgorithms) {
  std::mt19937 random(6);
  WeightsGradient g(random, 3);
  // 160 results: 9 ms without workspace, 4 ms with a byte for each, 2 ms with a KiB for each.
  for (auto [scratch, milliseconds] : {std::pair{uint64_t(0), 9.0}, {uint64_t(160), 4.0}, {uint64_t(160) << 10, 2.0}}) {
    LibraryRun kernel(g.desc, g.inputs, -1, scratch);
    kernel.choose();
    EXPECT_EQ(kernel.time(), milliseconds) << scratch;
    expectNear(kernel.run(), g.expected, 1e-6);
  }
  LibraryKernelDesc forward = describe("convolution", {g.inputs[0], randomValues(random, {5, 3, 1, 2})}, {2, 5, 4, 4});
  LibraryRun kernel(forward, {g.inputs[0], randomValues(random, {5, 3, 1, 2})}, -1, 0);
  kernel.choose();
  EXPECT_EQ(kernel.time(), 1.0);
}

// The simulated library is fastest with Fourier's transform and with Winograd's of large tiles, which round more than
// the arithmetic that was asked for: measured and kept choices alike are passed over.
TEST(CudnnConvolution, PassesOverInexactTransforms) {
  std::mt19937 random(12);
  for (const char *operation : {"convolution", "deconvolution", "convolution_weights"})
    for (auto [element, tf32] : {std::pair{ElementType::F32, 0}, {ElementType::F32, 1}, {ElementType::BF16, 0}}) {
      const Window window{{2, 3, 6, 6}, {4, 3, 3, 3}, {2, 4, 6, 6}, {1, 1}, {1, 1}, {1, 1}};
      ConvolutionCase s = convolutionCase(random, window, operation, element);
      s.desc.ints["tf32"] = {tf32};
      LibraryRun first(s.desc, s.inputs);
      first.choose();
      Values expected = first.run();
      EXPECT_GE(first.time(), 0.5) << s.desc.text();
      // An earlier version may have kept any algorithm, in any arithmetic.
      bool isForward = std::string(operation) == "convolution";
      for (int algorithm = 2; algorithm != 8; ++algorithm) {
        if (algorithm < 4 && isForward)
          continue;
        LibraryRun kernel(s.desc, s.inputs);
        kernel.keep("routine " + std::to_string(algorithm) + " 0 0");
        kernel.choose();
        EXPECT_GE(kernel.time(), 0.5) << s.desc.text() << " with algorithm " << algorithm;
        expectNear(kernel.run(), expected, bound(element));
      }
    }
}

// Gradients may have algorithms alone that add in any order: better than none, and said.
TEST(CudnnConvolution, TakesOtherAlgorithmsWhereNoneIsRepeatable) {
  std::mt19937 random(10);
  WeightsGradient g(random, 7);
  simulated::libraryRefusals.repeatable = true;
  testing::internal::CaptureStderr();
  LibraryRun kernel(g.desc, g.inputs);
  kernel.choose();
  std::string said = testing::internal::GetCapturedStderr();
  simulated::libraryRefusals = {};
  EXPECT_NE(said.find("no algorithm for \"convolution_weights\" f32[2,7,4,5]"), std::string::npos) << said;
  expectNear(kernel.run(), g.expected, 1e-6);
}

// cuDNN measures some algorithms in its own arithmetic alone. One that then does not run in float32 is passed over.
TEST(CudnnConvolution, PassesOverWhatDoesNotRunExactly) {
  std::mt19937 random(11);
  WeightsGradient g(random, 9);
  simulated::libraryRefusals.withoutTensorCores = {1, 3};
  LibraryRun kernel(g.desc, g.inputs);
  kernel.choose();
  simulated::libraryRefusals = {};
  EXPECT_EQ(kernel.time(), 9.0);
  expectNear(kernel.run(), g.expected, 1e-6);
}

// The address of a stream that is gone may be that of one on another GPU.
TEST(CudnnConvolution, HasHandlesOfEachDevice) {
  auto stream = reinterpret_cast<cudaStream_t>(uintptr_t(64));
  static int device;
  CudaRuntime cuda = simulatedRuntime();
  cuda.cudaGetDevice = [](int *current) {
    *current = device;
    return cudaSuccess;
  };
  replaceCudaLibrary(&cuda);
  device = 0;
  auto first = cudnnHandleOf(cuda, simulated::cudnn(), stream);
  device = 1;
  auto second = cudnnHandleOf(cuda, simulated::cudnn(), stream);
  replaceCudaLibrary(&simulatedRuntime());
  ASSERT_TRUE(first);
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_NE(*first, *second);
}

// TF32 where a plan asks for it.
TEST(CudnnConvolution, RoundsToTf32WhenAsked) {
  std::mt19937 random(7);
  std::vector<Values> inputs = {randomValues(random, {2, 8, 4, 4}), randomValues(random, {5, 8, 1, 1})};
  LibraryKernelDesc desc = describe("convolution", inputs, {2, 5, 4, 4});
  desc.ints["tf32"] = {1};
  Values expected = tabulate({2, 5, 4, 4}, [&](const Shape &at) {
    double sum = 0;
    for (int64_t c = 0; c != 8; ++c)
      sum += simulated::roundedToTf32(inputs[0].at({at[0], c, at[2], at[3]})) *
             simulated::roundedToTf32(inputs[1].at({at[1], c, 0, 0}));
    return sum;
  });
  expectNear(runLibraryKernel(desc, inputs), expected, 1e-6);
}

// Searching takes long: equal kernels of a process search once.
TEST(CudnnConvolution, RemembersWhatItChose) {
  std::mt19937 random(8);
  Fused f = fused(random, 1, true, true);
  f.desc.inputs[0].shape[0] = f.desc.inputs[3].shape[0] = f.desc.outputs[0].shape[0] = 1;
  f.inputs = {randomValues(random, {1, 3, 4, 4}), f.inputs[1], f.inputs[2], randomValues(random, {1, 5, 4, 4})};
  int before = simulated::measuredSearches;
  for (int i = 0; i != 2; ++i) {
    LibraryRun kernel(f.desc, f.inputs);
    kernel.choose();
    EXPECT_EQ(simulated::measuredSearches, before + 1);
    kernel.run();
  }
}

// Where nothing fits, the error says what was missing; the plan's text makes it possible to find the kernel.
TEST(CudnnConvolution, NamesWhatFailed) {
  std::mt19937 random(9);
  std::vector<Values> inputs = {randomValues(random, {1, 3, 4, 4}), randomValues(random, {5, 3, 1, 1})};
  LibraryRun kernel(describe("convolution", inputs, {1, 5, 4, 4}), inputs, -1, 0);
  Cudnn broken = simulated::cudnn();
  broken.cudnnConvolutionForward = [](cudnnHandle_t, const void *, const cudnnTensorDescriptor_t, const void *,
                                      const cudnnFilterDescriptor_t, const void *, const cudnnConvolutionDescriptor_t,
                                      cudnnConvolutionFwdAlgo_t, void *, size_t, const void *,
                                      const cudnnTensorDescriptor_t, void *) { return CUDNN_STATUS_BAD_PARAM; };
  replaceCudaLibrary(&broken);
  LibraryKernel library{"cudnn", "convolution", {}, {}, ""};
  Kernel plan;
  for (const Values &input : inputs)
    plan.inputs.push_back({ElementType::F32, input.shape, std::nullopt});
  plan.outputs = {{ElementType::F32, {1, 5, 4, 4}, std::nullopt}};
  auto loaded = loadCudaLibraryKernel(plan, library);
  ASSERT_TRUE(loaded) << loaded.error().text();
  Error error = (*loaded)->enqueue(kernel.arguments().data(), nullptr);
  replaceCudaLibrary(&simulated::cudnn());
  ASSERT_TRUE(error);
  for (const char *part :
       {"cudnn kernel \"convolution\" f32[1,3,4,4]", "cudnnConvolutionForward", "CUDNN_STATUS_BAD_PARAM"})
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
}

} // namespace
} // namespace cleave::runtime::test
