// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Epilogues that a library has no algorithm for: a kernel of our own computes them behind the library's.

#include "runtime/drivers/cuda/CudaEpilogue.h"
#include "test/runtime/cuda/CudaLibraryHarness.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

#include <cmath>

namespace cleave::runtime::test {
namespace {

using Activation = CudaEpilogueDesc::Activation;

/// Has the simulated libraries refuse, until the end of a scope.
struct Refusals {
  explicit Refusals(simulated::LibraryRefusals wanted) { simulated::libraryRefusals = std::move(wanted); }
  ~Refusals() { simulated::libraryRefusals = {}; }
};

double geluTanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

double activated(Activation activation, double x, double saved) {
  constexpr double step = 1e-4;
  switch (activation) {
  case Activation::None:
    return x;
  case Activation::Relu:
    return x < 0 ? 0 : x;
  case Activation::Gelu:
    return geluTanh(x);
  case Activation::GeluGradient:
    break;
  }
  return x * (geluTanh(saved + step) - geluTanh(saved - step)) / (2 * step);
}

std::vector<std::byte> bytesOf(const std::vector<double> &values, ElementType element) {
  std::vector<std::byte> bytes(values.size() * elementBytes(element));
  for (size_t i = 0; i != values.size(); ++i)
    storeElement(element, bytes.data() + i * elementBytes(element), values[i]);
  return bytes;
}

std::vector<double> valuesOf(const std::vector<std::byte> &bytes, ElementType element) {
  std::vector<double> values;
  for (size_t at = 0; at != bytes.size(); at += elementBytes(element))
    values.push_back(loadElement(element, bytes.data() + at));
  return values;
}

/// Values up to `range` of both signs, as the type has them.
std::vector<double> draw(std::mt19937 &random, size_t count, double range, ElementType element) {
  std::uniform_real_distribution<double> distribution(-range, range);
  std::vector<double> values;
  for (size_t i = 0; i != count; ++i)
    values.push_back(distribution(random));
  return valuesOf(bytesOf(values, element), element);
}

// Each part and all together, with biases a column and a channel, and more elements than threads of a block.
TEST(CudaEpilogue, ComputesWhatItSays) {
  std::mt19937 random(1);
  constexpr uint64_t channels = 7, outer = 3;
  for (ElementType element : {ElementType::F32, ElementType::BF16})
    for (Activation activation : {Activation::None, Activation::Relu, Activation::Gelu, Activation::GeluGradient})
      for (unsigned parts = 0; parts != 4; ++parts)
        for (uint64_t inner : {1, 30}) {
          CudaEpilogueDesc desc;
          desc.element = element;
          desc.elements = outer * channels * inner;
          desc.channels = channels;
          desc.inner = inner;
          desc.activation = activation;
          desc.bias = parts & 1 ? 0 : -1;
          desc.added = parts & 2 ? 1 : -1;
          desc.addedScale = 0.5f;
          desc.saved = 2;
          auto result = draw(random, desc.elements, 6, element), bias = draw(random, channels, 2, element);
          auto added = draw(random, desc.elements, 2, element), saved = draw(random, desc.elements, 12, element);
          std::vector<double> expected;
          for (uint64_t i = 0; i != desc.elements; ++i)
            expected.push_back(activated(
                activation, result[i] + (parts & 1 ? bias[i / inner % channels] : 0) + (parts & 2 ? 0.5 * added[i] : 0),
                saved[i]));
          auto loaded = CudaEpilogue::load(simulatedRuntime(), desc);
          ASSERT_TRUE(loaded) << loaded.error().text();
          auto target = bytesOf(result, element), first = bytesOf(bias, element), second = bytesOf(added, element),
               third = bytesOf(saved, element);
          void *arguments[] = {first.data(), second.data(), third.data()};
          ASSERT_FALSE(loaded->enqueue(target.data(), arguments, nullptr));
          finishSimulated();
          auto actual = valuesOf(target, element);
          for (uint64_t i = 0; i != desc.elements; ++i)
            ASSERT_NEAR(actual[i], expected[i],
                        (element == ElementType::BF16 ? 1.0 / 128 : 1e-6) * (1 + std::abs(expected[i])))
                << desc.text() << ", element " << i << " of " << elementName(element);
        }
}

// NaN is not lost, and far outside nothing becomes one.
TEST(CudaEpilogue, KeepsWhatIsNotANumber) {
  for (Activation activation : {Activation::Relu, Activation::Gelu, Activation::GeluGradient}) {
    CudaEpilogueDesc desc;
    desc.elements = 3;
    desc.activation = activation;
    desc.saved = 0;
    float values[] = {NAN, 1e30f, -1e30f}, saved[] = {NAN, 1e30f, -1e30f};
    void *arguments[] = {saved};
    auto loaded = CudaEpilogue::load(simulatedRuntime(), desc);
    ASSERT_TRUE(loaded) << loaded.error().text();
    ASSERT_FALSE(loaded->enqueue(values, arguments, nullptr));
    finishSimulated();
    EXPECT_TRUE(std::isnan(values[0]));
    EXPECT_EQ(values[1], 1e30f);
    EXPECT_EQ(values[2], 0);
  }
}

/// A product with a bias, and perhaps an addition and an activation; what comes out.
struct Product {
  LibraryKernelDesc desc;
  std::vector<Values> inputs;
  Values expected;
};

Product product(std::mt19937 &random, bool added, const std::string &activation, ElementType element) {
  Product p;
  p.inputs = {randomValues(random, {2, 4, 5}, element), randomValues(random, {2, 5, 6}, element),
              randomValues(random, {6}, element)};
  std::vector<LibraryPostOp> postOps;
  if (added) {
    postOps.push_back({"binary_add", 0, 0, 3});
    p.inputs.push_back(randomValues(random, {2, 4, 6}, element));
  }
  if (!activation.empty())
    postOps.push_back({activation});
  p.desc = describe("matmul", p.inputs, {2, 4, 6}, element);
  p.desc.postOps = postOps;
  p.expected = tabulate({2, 4, 6}, [&](const Shape &at) {
    double sum = p.inputs[2].values[at[2]] + (added ? p.inputs[3].at(at) : 0);
    for (int64_t k = 0; k != 5; ++k)
      sum += p.inputs[0].at({at[0], at[1], k}) * p.inputs[1].at({at[0], k, at[2]});
    return activation == "relu" ? std::max(sum, 0.0) : activation == "gelu_tanh" ? geluTanh(sum) : sum;
  });
  return p;
}

// Whatever cuBLASLt lacks, when it is asked or when it is to run, the result is the same; a product that needs nothing
// else is one kernel, the others two. What is added may lie where the result goes.
TEST(CudaEpilogue, FollowsProductsThatLackOne) {
  std::mt19937 random(2);
  using Set = std::set<uint32_t>;
  const Set activations = {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU,
                           CUBLASLT_EPILOGUE_GELU_BIAS};
  Set all = activations;
  all.insert(CUBLASLT_EPILOGUE_BIAS);
  for (const Set &refused : {Set{}, activations, all})
    for (bool whenRunning : {false, true})
      for (bool added : {false, true})
        for (bool inPlace : {false, true})
          for (const char *activation : {"", "relu", "gelu_tanh"})
            for (ElementType element : {ElementType::F32, ElementType::BF16}) {
              if (inPlace && !added)
                continue;
              simulated::LibraryRefusals wanted;
              (whenRunning ? wanted.running : wanted.heuristic) = refused;
              // It says so in several manners.
              wanted.status = added ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_SUPPORTED;
              Refusals refusals(wanted);
              Product p = product(random, added, activation, element);
              SCOPED_TRACE(p.desc.text() + ' ' + activation + ", " + std::to_string(refused.size()) + " refused");
              LibraryRun kernel(p.desc, p.inputs, inPlace ? 3 : -1);
              kernel.choose();
              int before = simulatedKernels();
              expectNear(kernel.run(), p.expected, element == ElementType::BF16 ? 1.0 / 64 : 1e-6);
              bool isWhole = refused.empty() || (!*activation && !refused.contains(CUBLASLT_EPILOGUE_BIAS));
              EXPECT_EQ(simulatedKernels() - before, isWhole ? 1 : 2);
            }
}

// Where cuBLASLt takes longer for an activation than a pass over the result does, the pass is chosen: here 3 ms.
TEST(CudaEpilogue, FollowsProductsWithSlowOnes) {
  std::mt19937 random(6);
  for (double milliseconds : {2.0, 4.0}) {
    simulated::LibraryRefusals slow;
    slow.activationTime = milliseconds;
    Refusals refusals(slow);
    // Another product each time: what was chosen for one is remembered.
    Product p = product(random, milliseconds > 3, "gelu_tanh", ElementType::F32);
    p.desc.ints["tf32"] = {0};
    LibraryRun kernel(p.desc, p.inputs);
    testing::internal::CaptureStderr();
    kernel.choose();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "nothing was refused";
    int before = simulatedKernels();
    expectNear(kernel.run(), p.expected, 1e-6);
    EXPECT_EQ(simulatedKernels() - before, milliseconds > 3 ? 2 : 1);
  }
}

// GELU's gradient needs a second value of each element, which the kernel behind the product reads, too.
TEST(CudaEpilogue, FollowsProductsThatLackGradients) {
  std::mt19937 random(4);
  for (bool isRefused : {false, true}) {
    Refusals refusals(isRefused ? simulated::LibraryRefusals{{CUBLASLT_EPILOGUE_DGELU}, {}}
                                : simulated::LibraryRefusals{});
    std::vector<Values> inputs = {randomValues(random, {4, 5}), randomValues(random, {5, 8}),
                                  randomValues(random, {4, 8})};
    LibraryKernelDesc desc = describe("matmul", inputs, {4, 8});
    desc.postOps = {{"gelu_tanh_gradient", 0, 0, 2}};
    Values expected = tabulate({4, 8}, [&](const Shape &at) {
      double sum = 0;
      for (int64_t k = 0; k != 5; ++k)
        sum += inputs[0].at({at[0], k}) * inputs[1].at({k, at[1]});
      return activated(Activation::GeluGradient, sum, inputs[2].at(at));
    });
    LibraryRun kernel(desc, inputs);
    kernel.choose();
    int before = simulatedKernels();
    expectNear(kernel.run(), expected, 1e-5);
    EXPECT_EQ(simulatedKernels() - before, isRefused ? 2 : 1);
  }
}

// A product that nothing computes is still an error, that of the plain product.
TEST(CudaEpilogue, SaysWhenThereIsNoAlgorithmAtAll) {
  std::mt19937 random(3);
  Product p = product(random, false, "relu", ElementType::F32);
  Refusals refusals({{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS}, {}});
  try {
    LibraryRun kernel(p.desc, p.inputs);
    ADD_FAILURE() << "it was loaded";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("cublasLtMatmulAlgoGetHeuristic: not supported"), std::string::npos)
        << error.what();
  }
}

// The user learns of it, once.
TEST(CudaEpilogue, IsNotedOnce) {
  CudaEpilogueDesc other;
  other.bias = 1;
  other.added = 2;
  testing::internal::CaptureStderr();
  for (int i = 0; i != 2; ++i)
    noteEpilogue("a library", other, "a kernel");
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "cleave: a library has no algorithm for a kernel with bias, addition: a second kernel computes that, here and "
      "wherever else\n");
}

// The same for cuDNN's fused routine: the convolution, then a kernel with a value a channel.
TEST(CudaEpilogue, FollowsConvolutionsThatLackOne) {
  std::mt19937 random(5);
  Refusals refusals({{}, {}, true});
  for (bool added : {false, true})
    for (bool inPlace : {false, true})
      for (bool relu : {false, true}) {
        if (inPlace && !added)
          continue;
        std::vector<Values> inputs = {randomValues(random, {2, 3, 4, 3}), randomValues(random, {5, 3, 1, 1}),
                                      randomValues(random, {5})};
        std::vector<LibraryPostOp> postOps;
        if (added) {
          postOps.push_back({"binary_add", 0, 0, 3});
          inputs.push_back(randomValues(random, {2, 5, 4, 3}));
        }
        if (relu)
          postOps.push_back({"relu"});
        LibraryKernelDesc desc = describe("convolution", inputs, {2, 5, 4, 3});
        desc.postOps = postOps;
        Values expected = tabulate({2, 5, 4, 3}, [&](const Shape &at) {
          double sum = inputs[2].values[at[1]] + (added ? inputs[3].at(at) : 0);
          for (int64_t c = 0; c != 3; ++c)
            sum += inputs[0].at({at[0], c, at[2], at[3]}) * inputs[1].at({at[1], c, 0, 0});
          return relu ? std::max(sum, 0.0) : sum;
        });
        SCOPED_TRACE(desc.text());
        LibraryRun kernel(desc, inputs, inPlace ? 3 : -1);
        kernel.choose();
        int before = simulatedKernels();
        expectNear(kernel.run(), expected, 1e-6);
        EXPECT_EQ(simulatedKernels() - before, 2);
      }
}

} // namespace
} // namespace cleave::runtime::test
