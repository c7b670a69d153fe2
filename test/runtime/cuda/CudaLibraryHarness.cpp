// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers with guards, a stream and a clock for library kernels.

#include "test/runtime/cuda/CudaLibraryHarness.h"

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"
#include "test/ptx/PtxInterpreter.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <stdexcept>

namespace {

/// The one stream, and what has run on it.
std::deque<std::function<void()>> pending;
double now = 0;
int kernels = 0;

void finish() {
  for (; !pending.empty(); pending.pop_front())
    pending.front()();
}

} // namespace

void cleave::simulated::enqueue(cudaStream_t, std::function<void()> work) {
  pending.push_back([work = std::move(work)] {
    ++kernels;
    work();
  });
}

namespace cleave::runtime::test {

double simulatedTime() { return now; }
int simulatedKernels() { return kernels; }

/// An entry of PTX that was loaded.
struct LoadedEntry {
  ptx::Module module;
  std::string name;
};

/// The driver's own kernels have parameters of 64 bits; memory is all of the host's, since buffers have guards.
static void addLaunching(CudaRuntime &t) {
  t.cudaLibraryLoadData = [](cudaLibrary_t *library, const void *text, cudaJitOption *, void **, unsigned,
                             cudaLibraryOption *, void **, unsigned) {
    auto parsed = ptx::Module::parse(static_cast<const char *>(text));
    if (const auto *error = std::get_if<std::string>(&parsed))
      throw std::runtime_error(*error);
    *library = reinterpret_cast<cudaLibrary_t>(new ptx::Module(std::get<ptx::Module>(parsed)));
    return cudaSuccess;
  };
  t.cudaLibraryUnload = [](cudaLibrary_t library) {
    delete reinterpret_cast<ptx::Module *>(library);
    return cudaSuccess;
  };
  t.cudaLibraryGetKernel = [](cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    static std::deque<LoadedEntry> entries;
    entries.push_back({*reinterpret_cast<ptx::Module *>(library), name});
    *kernel = reinterpret_cast<cudaKernel_t>(&entries.back());
    return cudaSuccess;
  };
  t.cudaFuncGetAttributes = [](cudaFuncAttributes *attributes, const void *) {
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
  };
  t.cudaLaunchKernel = [](const void *kernel, dim3 blocks, dim3 threads, void **arguments, size_t, cudaStream_t) {
    const auto &entry = *static_cast<const LoadedEntry *>(kernel);
    ptx::Launch launch{entry.name, blocks.x, threads.x, 0, {}};
    launch.setArguments(entry.module.parameterSizes(entry.name), arguments);
    pending.push_back([launch, &entry] {
      ptx::Memory memory;
      memory.allow(nullptr, size_t(1) << 62);
      if (auto error = ptx::run(entry.module, launch, memory))
        throw std::runtime_error(*error);
      now += 3;
      ++kernels;
    });
    return cudaSuccess;
  };
}

const CudaRuntime &simulatedRuntime() {
  static const CudaRuntime table = [] {
    CudaRuntime t;
    t.cudaGetDevice = [](int *device) {
      *device = 0;
      return cudaSuccess;
    };
    t.cudaGetDeviceProperties = [](cudaDeviceProp *properties, int) {
      std::memset(properties, 0, sizeof(*properties));
      std::strcpy(properties->name, "simulated GPU");
      return cudaSuccess;
    };
    t.cudaEventCreateWithFlags = [](cudaEvent_t *event, unsigned) {
      *event = reinterpret_cast<cudaEvent_t>(new double(0));
      return cudaSuccess;
    };
    t.cudaEventDestroy = [](cudaEvent_t event) {
      delete reinterpret_cast<double *>(event);
      return cudaSuccess;
    };
    t.cudaEventRecord = [](cudaEvent_t event, cudaStream_t) {
      pending.push_back([event] { *reinterpret_cast<double *>(event) = now; });
      return cudaSuccess;
    };
    t.cudaEventSynchronize = [](cudaEvent_t) {
      finish();
      return cudaSuccess;
    };
    t.cudaEventElapsedTime = [](float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
      *milliseconds = static_cast<float>(*reinterpret_cast<double *>(end) - *reinterpret_cast<double *>(begin));
      return cudaSuccess;
    };
    t.cudaStreamSynchronize = [](cudaStream_t) {
      finish();
      return cudaSuccess;
    };
    addLaunching(t);
    t.cudaGetErrorName = [](cudaError_t) { return "cudaError"; };
    t.cudaGetErrorString = [](cudaError_t) { return "simulated"; };
    return t;
  }();
  return table;
}

void finishSimulated() { finish(); }

static void simulate() {
  simulated::spendTime = [](double milliseconds) { now += milliseconds; };
  replaceCudaLibrary(&simulatedRuntime());
  replaceCudaLibrary(&simulated::cublasLt());
  replaceCudaLibrary(&simulated::cudnn());
}

double &Values::at(const Shape &index) {
  int64_t place = 0;
  for (size_t d = 0; d != shape.size(); ++d)
    place = place * shape[d] + index[d];
  return values[place];
}

void forEach(const Shape &shape, const std::function<void(const Shape &)> &body) {
  Shape index(shape.size(), 0);
  while (true) {
    body(index);
    size_t d = shape.size();
    while (d != 0 && ++index[d - 1] == shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

Values tabulate(const Shape &shape, const std::function<double(const Shape &)> &value) {
  Values result{shape, {}};
  forEach(shape, [&](const Shape &index) { result.values.push_back(value(index)); });
  return result;
}

/// `value` as the element type has it.
static double rounded(double value, ElementType element) {
  std::byte bytes[8];
  storeElement(element, bytes, value);
  return loadElement(element, bytes);
}

Values randomValues(std::mt19937 &random, const Shape &shape, ElementType element) {
  std::uniform_real_distribution<double> distribution(-1, 1);
  return tabulate(shape, [&](const Shape &) { return rounded(distribution(random), element); });
}

void expectNear(const Values &actual, const Values &expected, double relative) {
  ASSERT_EQ(actual.shape, expected.shape);
  for (size_t i = 0; i != expected.values.size(); ++i)
    ASSERT_NEAR(actual.values[i], expected.values[i], relative * (std::abs(expected.values[i]) + 1)) << "element " << i;
}

LibraryKernelDesc describe(std::string operation, const std::vector<Values> &inputs, Shape output,
                           ElementType element) {
  LibraryKernelDesc desc;
  desc.operation = std::move(operation);
  for (const Values &input : inputs)
    desc.inputs.push_back({element, input.shape, std::nullopt});
  desc.outputs = {{element, std::move(output), std::nullopt}};
  return desc;
}

/// Bytes before and behind a buffer that nobody may touch.
constexpr size_t guard = 64;
constexpr std::byte guardByte{0xab};

void *LibraryRun::Buffer::address() {
  // A multiple of 64, as plans promise, and of no more.
  auto begin = reinterpret_cast<uintptr_t>(bytes.data()) + guard;
  begin = (begin + 63) / 64 * 64;
  return reinterpret_cast<void *>(begin % 128 == 0 ? begin + 64 : begin);
}

LibraryRun::Buffer LibraryRun::makeBuffer(const TensorType &type, uint64_t bytes) const {
  return {type, std::vector<std::byte>(bytes + 2 * guard + 128, guardByte)};
}

static void orThrow(const Error &error) {
  if (error)
    throw std::runtime_error(error.text());
}

LibraryRun::LibraryRun(LibraryKernelDesc wanted, std::vector<Values> inputs, int inPlace,
                       std::optional<uint64_t> scratchBytes)
    : values(std::move(inputs)), inPlace(inPlace) {
  simulate();
  auto choice = cudaLibraries().choose({wanted, {}, {}}, 1);
  orThrow(choice.error());
  desc = choice->desc;
  desc.scratchBytes = scratchBytes.value_or(desc.scratchBytes);
  // As a plan has it.
  LibraryKernel library{desc.library, desc.operation, {}, {}, desc.implementation};
  for (const auto &[name, ints] : desc.ints)
    library.attributes.push_back({name, ints, {}});
  for (const auto &[name, reals] : desc.reals)
    library.attributes.push_back({name, {}, reals});
  for (const LibraryPostOp &postOp : desc.postOps)
    library.postOps.push_back({postOp.kind, postOp.alpha, postOp.beta, postOp.argument});
  Kernel kernel;
  kernel.name = "kernel";
  kernel.inputs = desc.inputs;
  kernel.outputs = desc.outputs;
  kernel.scratchBytes = desc.scratchBytes;
  auto result = loadCudaLibraryKernel(kernel, library);
  orThrow(result.error());
  loaded = std::move(*result);
  for (const TensorType &type : desc.inputs)
    buffers.push_back(makeBuffer(type, *type.byteSize()));
  for (const TensorType &type : desc.outputs)
    buffers.push_back(makeBuffer(type, *type.byteSize()));
  if (desc.scratchBytes != 0)
    buffers.push_back(makeBuffer({}, desc.scratchBytes));
  fill();
}

std::vector<void *> LibraryRun::arguments() {
  std::vector<void *> result;
  for (Buffer &buffer : buffers)
    result.push_back(buffer.address());
  if (inPlace >= 0)
    result[inPlace] = result[desc.inputs.size()];
  return result;
}

/// The byte at which an element lies.
static size_t placeOf(const TensorType &type, const Shape &index) {
  Layout layout = type.layout ? *type.layout : denseLayout(type.shape);
  int64_t place = 0;
  for (size_t d = 0; d != index.size(); ++d)
    place += index[d] * layout.strides[d];
  return place * elementBytes(type.element);
}

void LibraryRun::fill() {
  std::vector<void *> places = arguments();
  // An output that nobody writes is seen.
  for (size_t i = 0; i != desc.outputs.size(); ++i)
    std::memset(places[desc.inputs.size() + i], 0xff, *desc.outputs[i].byteSize());
  for (size_t i = 0; i != values.size(); ++i)
    forEach(values[i].shape, [&](const Shape &index) {
      storeElement(desc.inputs[i].element, static_cast<std::byte *>(places[i]) + placeOf(desc.inputs[i], index),
                   values[i].at(index));
    });
}

void LibraryRun::checkGuards() const {
  for (const Buffer &buffer : buffers) {
    auto outside = [](std::byte byte) { return byte == guardByte; };
    EXPECT_TRUE(std::all_of(buffer.bytes.begin(), buffer.bytes.begin() + guard, outside));
    EXPECT_TRUE(std::all_of(buffer.bytes.end() - guard, buffer.bytes.end(), outside));
  }
}

std::string LibraryRun::key() const {
  auto key = algorithmKey(simulatedRuntime(), "cudnn " + std::to_string(simulated::cudnn().cudnnGetVersion()), desc);
  orThrow(key.error());
  return *key;
}

void LibraryRun::keep(const std::string &text) const { CudaAlgorithmCache::ofProcess().insert(key(), text); }
std::optional<std::string> LibraryRun::kept() const { return CudaAlgorithmCache::ofProcess().find(key()); }

void LibraryRun::choose() {
  orThrow(loaded->choose(arguments().data(), nullptr));
  EXPECT_TRUE(pending.empty()) << "choose() ends when the stream is idle";
  fill();
}

std::vector<Values> LibraryRun::runAll() {
  std::vector<void *> places = arguments();
  orThrow(loaded->enqueue(places.data(), nullptr));
  finish();
  checkGuards();
  std::vector<Values> results;
  for (size_t i = 0; i != desc.outputs.size(); ++i) {
    const TensorType &type = desc.outputs[i];
    auto place = static_cast<const std::byte *>(places[desc.inputs.size() + i]);
    results.push_back(tabulate(
        type.shape, [&](const Shape &index) { return loadElement(type.element, place + placeOf(type, index)); }));
  }
  return results;
}

double LibraryRun::time() {
  double before = now;
  run();
  return now - before;
}

Values runLibraryKernel(const LibraryKernelDesc &desc, const std::vector<Values> &inputs, int inPlace) {
  LibraryRun kernel(desc, inputs, inPlace);
  kernel.choose();
  return kernel.run();
}

} // namespace cleave::runtime::test
