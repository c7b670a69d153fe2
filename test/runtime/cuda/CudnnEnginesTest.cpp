// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions by engines of cuDNN's backend: which are taken, what they compute, and what the real library's
// heuristics find for a GPU that is not there.

#include "runtime/drivers/cuda/CudnnAttentionGraph.h"
#include "runtime/drivers/cuda/CudnnConvolutionGraph.h"
#include "test/runtime/cuda/ConvolutionWindow.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

#include <algorithm>
#include <cstring>
#include <regex>

namespace cleave::runtime::test {
namespace {

/// cuDNN has its backend until the end of a scope.
struct WithEngines {
  WithEngines() { simulated::libraryRefusals.engines = false; }
  ~WithEngines() { simulated::libraryRefusals = {}; }
};

double bound(ElementType element) { return element == ElementType::BF16 ? 1.0 / 128 : 1e-6; }

const Window small{{2, 3, 6, 6}, {4, 3, 3, 3}, {2, 4, 6, 6}, {1, 1}, {1, 1}, {1, 1}};

/// Chooses, checks the result, and gives what was chosen.
std::string chosenFor(const ConvolutionCase &c, ElementType element, std::optional<uint64_t> scratch = std::nullopt) {
  LibraryRun kernel(c.desc, c.inputs, -1, scratch);
  // What other tests have left is none.
  kernel.keep("");
  kernel.choose();
  expectNear(kernel.run(), c.expected, bound(element));
  return kernel.kept().value_or("nothing");
}

// All directions, with strides, dilations, groups, pads and 1 to 3 dimensions at random.
TEST(CudnnEngines, ComputeEveryDirection) {
  WithEngines with;
  std::mt19937 random(1);
  for (int i = 0; i != 60; ++i) {
    Window window = randomWindow(random, /*largestKernel=*/3);
    ElementType element = random() % 3 ? ElementType::F32 : ElementType::BF16;
    for (const char *operation : {"convolution", "deconvolution", "convolution_weights"}) {
      ConvolutionCase c = convolutionCase(random, window, operation, element);
      SCOPED_TRACE(c.desc.text());
      EXPECT_EQ(chosenFor(c, element), element == ElementType::BF16 ? "engine 3" : "engine 6");
    }
  }
}

// The fastest engines round more than was asked for, add up in any order, or would have to be compiled: what is taken
// is the fastest of the others, with the knob that makes it so, in the workspace there is.
TEST(CudnnEngines, AreExactAndRepeatable) {
  WithEngines with;
  std::mt19937 random(2);
  for (const char *operation : {"convolution", "deconvolution", "convolution_weights"}) {
    ConvolutionCase c = convolutionCase(random, small, operation, ElementType::F32);
    // 288 elements of the result; up to 192 bytes are lost to alignment.
    EXPECT_EQ(chosenFor(c, ElementType::F32, (288 << 10) + 192), "engine 6") << operation;
    EXPECT_EQ(chosenFor(c, ElementType::F32, (288 << 10) + 191), "engine 1 2=1") << operation;
    EXPECT_EQ(chosenFor(c, ElementType::F32, 288 + 191), "engine 0") << operation;
    EXPECT_EQ(chosenFor(c, ElementType::F32, 0), "engine 0") << operation;
  }
}

// Where rounding to TF32 is asked for, that and no more.
TEST(CudnnEngines, RoundToTf32WhenAsked) {
  WithEngines with;
  std::mt19937 random(3);
  ConvolutionCase c = convolutionCase(random, small, "convolution", ElementType::F32);
  c.desc.ints["tf32"] = {1};
  c.expected = tabulate(small.result, [](const Shape &) { return 0; });
  small.forEachTap([&](const Shape &in, const Shape &weight, const Shape &out) {
    c.expected.at(out) +=
        simulated::roundedToTf32(c.inputs[0].at(in)) * simulated::roundedToTf32(c.inputs[1].at(weight));
  });
  EXPECT_EQ(chosenFor(c, ElementType::F32), "engine 3");
}

// Better than none, and said.
TEST(CudnnEngines, VaryWhereNothingElseIsThere) {
  WithEngines with;
  simulated::libraryRefusals.repeatable = true;
  std::mt19937 random(4);
  ConvolutionCase c = convolutionCase(random, small, "convolution_weights", ElementType::F32);
  c.desc.inputs[0].shape[0] = c.desc.inputs[1].shape[0] = 2;
  testing::internal::CaptureStderr();
  EXPECT_EQ(chosenFor(c, ElementType::F32, 64), "engine 2");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("that gives the same result every time"), std::string::npos);
}

/// With a bias, what is added, and a rectifier.
ConvolutionCase withEpilogue(std::mt19937 &random, const Window &window) {
  ConvolutionCase c = convolutionCase(random, window, "convolution", ElementType::F32);
  c.inputs.push_back(randomValues(random, {window.weights[0]}));
  c.inputs.push_back(randomValues(random, window.result));
  Values sums = c.expected;
  c.expected = tabulate(window.result, [&](const Shape &at) {
    return std::max(sums.at(at) + c.inputs[2].values[at[1]] + c.inputs[3].at(at), 0.0);
  });
  c.desc = describe("convolution", c.inputs, window.result);
  window.describeIn(c.desc);
  c.desc.postOps = {{"binary_add", 0, 0, 3}, {"relu"}};
  return c;
}

/// Runs a kernel once more, with what is added where the result goes or elsewhere.
Values runOtherwise(LibraryRun &kernel, const Shape &shape, bool inPlace) {
  std::vector<void *> arguments = kernel.arguments();
  static std::byte aligned[288 * sizeof(float) + 64];
  auto place = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(aligned) + 63) / 64 * 64);
  std::memcpy(place, arguments[3], 288 * sizeof(float));
  if (inPlace)
    std::memcpy(arguments[4], place, 288 * sizeof(float));
  arguments[3] = inPlace ? arguments[4] : place;
  Error error = kernel.kernel().enqueue(arguments.data(), nullptr);
  EXPECT_FALSE(error) << error.text();
  finishSimulated();
  return tabulate(shape,
                  [i = 0, &arguments](const Shape &) mutable { return static_cast<const float *>(arguments[4])[i++]; });
}

// A kernel of our own follows an engine, which adds what lies where its result goes. A later call that has it
// elsewhere, or the other way round, is left to a routine. Fused routines are refused: they would be faster.
TEST(CudnnEngines, ComputeEpilogues) {
  WithEngines with;
  simulated::libraryRefusals.fusesConvolutions = true;
  std::mt19937 random(5);
  for (int inPlace : {-1, 3}) {
    ConvolutionCase c = withEpilogue(random, small);
    LibraryRun kernel(c.desc, c.inputs, inPlace);
    kernel.keep("");
    kernel.choose();
    EXPECT_EQ(kernel.kept(), "engine 6");
    LibraryRun again(c.desc, c.inputs, inPlace);
    again.choose();
    expectNear(again.run(), c.expected, 1e-6);
    LibraryRun other(c.desc, c.inputs, inPlace);
    other.choose();
    expectNear(runOtherwise(other, small.result, inPlace < 0), c.expected, 1e-6);
  }
}

// What was kept is taken without another search, unless it is not there, inexact, too large or does not run.
TEST(CudnnEngines, AreRemembered) {
  WithEngines with;
  std::mt19937 random(7);
  Window window = small;
  window.data[1] = window.weights[1] = 4;
  ConvolutionCase c = convolutionCase(random, window, "deconvolution", ElementType::F32);
  auto isTaken = [&](const std::string &text, std::optional<uint64_t> scratch = std::nullopt) {
    LibraryRun kernel(c.desc, c.inputs, -1, scratch);
    kernel.keep(text);
    int before = simulated::engineSearches;
    kernel.choose();
    expectNear(kernel.run(), c.expected, 1e-6);
    return simulated::engineSearches == before;
  };
  EXPECT_TRUE(isTaken("engine 0"));
  EXPECT_TRUE(isTaken("engine 1 2=0"));
  for (const char *text :
       {"engine 3", "engine 4", "engine 5", "engine 7", "engine 8", "engine 9", "engine 10", "engine 11", "engine 99",
        "engine -1", "engine", "engine 1 2=", "engine 1 2=2", "engine 1 3=0", "engine 1 2=1 junk", "engine 0 ", ""})
    EXPECT_FALSE(isTaken(text)) << text;
  EXPECT_FALSE(isTaken("engine 6", 1 << 10));
  simulated::libraryRefusals.runningEngines = {0};
  EXPECT_FALSE(isTaken("engine 0"));
}

// An engine that does not run after all leaves the others.
TEST(CudnnEngines, MayNotRun) {
  WithEngines with;
  std::mt19937 random(8);
  Window window = small;
  window.weights[0] = window.result[1] = 2;
  ConvolutionCase c = convolutionCase(random, window, "convolution", ElementType::F32);
  simulated::libraryRefusals.runningEngines = {6};
  EXPECT_EQ(chosenFor(c, ElementType::F32, 1 << 20), "engine 1 2=1");
  simulated::libraryRefusals.runningEngines = {0, 1, 6};
  EXPECT_EQ(chosenFor(c, ElementType::F32, 1 << 21), "routine 0 3 0");
}

// A version without the backend has its routines.
TEST(CudnnEngines, MayBeMissing) {
  WithEngines with;
  std::mt19937 random(9);
  ConvolutionCase c = convolutionCase(random, small, "convolution", ElementType::F32);
  LibraryRun run(c.desc, c.inputs, -1, 0);
  Cudnn old = simulated::cudnn();
  old.cudnnBackendExecute = nullptr;
  replaceCudaLibrary(&old);
  LibraryKernel library{"cudnn", "convolution", {{"pads_begin", {1, 1}, {}}, {"pads_end", {1, 1}, {}}}, {}, ""};
  Kernel plan;
  plan.inputs = c.desc.inputs;
  plan.outputs = c.desc.outputs;
  auto loaded = loadCudaLibraryKernel(plan, library);
  ASSERT_TRUE(loaded) << loaded.error().text();
  int before = simulated::engineSearches;
  EXPECT_FALSE((*loaded)->choose(run.arguments().data(), nullptr));
  replaceCudaLibrary(&simulated::cudnn());
  EXPECT_EQ(simulated::engineSearches, before);
}

#if CUDNN_VERSION >= 90800

/// An H200, as cuDNN describes one.
const char *const h200 = R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
 "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
 "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
 "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
 "supportCoopLaunch": 1, "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
 "l2CacheSize": 62914560, "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "deviceName": "NVIDIA H200"})";

/// Has the table of the installed cuDNN until the end of a scope.
struct RealCudnn {
  RealCudnn() { replaceCudaLibrary<Cudnn>(nullptr); }
  ~RealCudnn() { replaceCudaLibrary(&simulated::cudnn()); }

  /// A device's properties as cuDNN reads them; an error where there is no cuDNN that does.
  Expected<CudnnBackendObject> describe(const std::string &device) const {
    auto library = cudaLibrary<Cudnn>();
    if (!library)
      return library.error();
    if (!hasCudnnBackend(**library) || (*library)->cudnnGetVersion() < 90800)
      return makeError(Status::Unsupported, "cuDNN describes no devices");
    CudnnBackendObject properties(**library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                   std::vector<char>(device.c_str(), device.c_str() + device.size() + 1));
    if (Error error = properties.finalize())
      return makeError(error.status(), "cuDNN describes devices otherwise: ", error.message());
    return properties;
  }
};

CudnnConvolution problemOf(CudnnConvolution::Direction direction, int kernel, int stride, ElementType element,
                           bool tf32) {
  CudnnConvolution problem;
  problem.direction = direction;
  problem.element = element;
  problem.tf32 = tf32;
  int pad = kernel / 2;
  problem.data = {32, 128, 28, 28};
  problem.weights = {256, 128, kernel, kernel};
  problem.result = {32, 256, (28 + 2 * pad - kernel) / stride + 1, (28 + 2 * pad - kernel) / stride + 1};
  problem.window = {{pad, pad}, {stride, stride}, {1, 1}};
  return problem;
}

// What cuDNN's documentation says of descriptors and their attributes, the library checks itself, without a GPU: for
// the properties of one its heuristics give configurations, which are built anew from their numbers, as those that a
// cache has kept. Of each kind of arithmetic something is left that is exact.
TEST(CudnnEngines, AreFoundByTheRealLibrary) {
  RealCudnn real;
  auto properties = real.describe(h200);
  if (!properties)
    GTEST_SKIP() << properties.error().text();
  const Cudnn &library = **cudaLibrary<Cudnn>();
  using Direction = CudnnConvolution::Direction;
  for (Direction direction : {Direction::Forward, Direction::BackwardData, Direction::BackwardWeights})
    for (int kernel : {1, 3})
      for (int stride : {1, 2})
        for (auto [element, tf32] :
             {std::pair{ElementType::F32, false}, {ElementType::F32, true}, {ElementType::BF16, false}}) {
          CudnnConvolution problem = problemOf(direction, kernel, stride, element, tf32);
          auto graph = makeConvolutionGraph(library, problem, /*adds=*/false, nullptr, &*properties);
          ASSERT_TRUE(graph) << graph.error().text();
          size_t found = 0, usable = 0, onTensorCores = 0;
          for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK, CUDNN_HEUR_MODE_B}) {
            auto choices = graph->find(mode);
            ASSERT_TRUE(choices) << choices.error().text();
            found += choices->size();
            for (const CudnnEngineChoice &choice : *choices) {
              EXPECT_EQ(CudnnEngineChoice::read(choice.text()), choice);
              auto notes = graph->notesOf(choice.engine);
              ASSERT_TRUE(notes) << notes.error().text();
              if (!isExact(*notes, problem) || !notes->isRepeatable() || !notes->isReady())
                continue;
              auto plan = graph->plan(choice);
              EXPECT_TRUE(plan) << choice.text() << ": " << plan.error().text();
              usable += plan && plan->workspaceBytes < problem.workspaceBytes();
              onTensorCores += notes->has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
            }
          }
          EXPECT_GT(usable, 2u) << found << " found";
          EXPECT_EQ(onTensorCores != 0, element == ElementType::BF16 || tf32);
        }
}

/// Whether some engine, with some kernel of its own, takes a graph, but for the driver of a GPU that its code is
/// compiled with.
bool isTaken(const CudnnGraph &graph) {
  constexpr int64_t numbers = 12, kernels = 40;
  for (int64_t number = 0; number != numbers; ++number)
    for (int64_t kernel = -1; kernel != kernels; ++kernel) {
      CudnnEngineChoice choice{number, {}};
      if (kernel >= 0)
        choice.knobs = {{CUDNN_KNOB_TYPE_KERNEL_CFG, kernel}};
      auto plan = graph.plan(choice);
      if (plan || plan.error().message().find("RUNTIME_PREREQUISITE_MISSING") != std::string::npos)
        return true;
    }
  return false;
}

/// The same of a GPU of another architecture, as far as engines of attention ask.
std::string withArchitecture(const std::string &properties, const std::string &version, const std::string &shared) {
  std::string text = std::regex_replace(properties, std::regex("\"deviceVer\": [0-9]+"), "\"deviceVer\": " + version);
  return std::regex_replace(text, std::regex("\"maxSharedMemoryPerBlockOptin\": [0-9]+"),
                            "\"maxSharedMemoryPerBlockOptin\": " + shared);
}

std::vector<CudnnAttention> attentionForms() {
  std::vector<CudnnAttention> forms;
  for (int form = 0; form != 16; ++form)
    for (int64_t size : {8, 24, 64, 72, 128}) {
      CudnnAttention problem;
      problem.isGradient = form & 1;
      problem.givesLogSums = !problem.isGradient && (form & 2);
      problem.batch = 8;
      problem.heads = 12;
      // Beyond a gibibyte of scores the gradient has another form.
      problem.queries = problem.isGradient && (form & 2) ? 8192 : 77;
      problem.keys = 1000;
      problem.size = size;
      problem.positionsFirst = form & 4;
      problem.isCausal = form & 8;
      EXPECT_EQ(problem.isRepeatable(), !problem.isGradient || !(form & 2));
      forms.push_back(problem);
    }
  return forms;
}

// Graphs of attention are in the form in which cuDNN recognizes them, for all that the rules allow: engines refuse
// others before they look for a driver.
TEST(CudnnEngines, TakeAttentionInTheRealLibrary) {
  RealCudnn real;
  for (const std::string &device : {std::string(h200), withArchitecture(h200, "800", "166912")}) {
    auto properties = real.describe(device);
    if (!properties)
      GTEST_SKIP() << properties.error().text();
    const Cudnn &library = **cudaLibrary<Cudnn>();
    for (const CudnnAttention &problem : attentionForms()) {
      auto graph = makeAttentionGraph(library, problem, nullptr, &*properties);
      ASSERT_TRUE(graph) << graph.error().text();
      EXPECT_TRUE(isTaken(*graph)) << (problem.isGradient ? "gradient" : "result") << " of heads of " << problem.size
                                   << (problem.isCausal ? ", causal" : "") << " on " << device;
    }
  }
}

#endif

} // namespace
} // namespace cleave::runtime::test
