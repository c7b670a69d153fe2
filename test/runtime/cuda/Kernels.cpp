// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of the simulated CUDA: PTX that the interpreter runs, with only the memory that the GPU reaches.

#include "Simulation.h"

#include <cstring>
#include <pthread.h>

namespace cleave::simulated {

/// Whether the address is of something that ends with a call of this thread.
static bool isOnStack(const void *address) {
  pthread_attr_t attributes;
  void *lowest = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0)
    return false;
  pthread_attr_getstack(&attributes, &lowest, &bytes);
  pthread_attr_destroy(&attributes);
  auto *begin = static_cast<const std::byte *>(lowest), *at = static_cast<const std::byte *>(address);
  return begin <= at && at < begin + bytes;
}

static cudaError_t loadCode(cudaLibrary_t *handle, const void *data, cudaJitOption *options, void **values,
                            unsigned count, cudaLibraryOption *, void **, unsigned) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  // It may be translated long after this call, and then CUDA writes where it was told.
  if (isOnStack(options) || isOnStack(values))
    return simulation.misuse("options of a translation that end before it");
  auto made = std::make_unique<Code>();
  made->text = static_cast<const char *>(data);
  // Tests load the same text again and again.
  static std::map<std::string, std::variant<ptx::Module, std::string>> known;
  auto found = known.find(made->text);
  if (found == known.end())
    found = known.emplace(made->text, ptx::Module::parse(made->text)).first;
  const auto &parsed = found->second;
  if (const auto *error = std::get_if<std::string>(&parsed)) {
    for (unsigned i = 0; i != count; ++i)
      if (options[i] == cudaJitErrorLogBuffer)
        std::strncpy(static_cast<char *>(values[i]), error->c_str(), 1024);
    return simulation.fail(cudaErrorInvalidPtx);
  }
  made->module = std::get<ptx::Module>(parsed);
  *handle = reinterpret_cast<cudaLibrary_t>(made.get());
  simulation.codes[made.get()] = std::move(made);
  return cudaSuccess;
}

static Code *findCode(Simulation &simulation, cudaLibrary_t handle) {
  auto found = simulation.codes.find(reinterpret_cast<Code *>(handle));
  if (found == simulation.codes.end()) {
    simulation.misuse("use of a library that is gone");
    return nullptr;
  }
  return found->second.get();
}

static cudaError_t unloadCode(cudaLibrary_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Code *code = findCode(simulation, handle);
  if (!code)
    return cudaErrorInvalidValue;
  (void)simulation.awaitAll();
  simulation.checkGraphs(code, code + 1, "code");
  simulation.codes.erase(code);
  return cudaSuccess;
}

static cudaError_t getKernel(cudaKernel_t *handle, cudaLibrary_t library, const char *name) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Code *code = findCode(simulation, library);
  if (!code)
    return cudaErrorInvalidValue;
  for (const std::string &entry : code->module->entries())
    if (entry == name) {
      Kernel &kernel = code->kernels[name];
      kernel.code = code;
      kernel.entry = name;
      kernel.parameterSizes = code->module->parameterSizes(name);
      *handle = reinterpret_cast<cudaKernel_t>(&kernel);
      return cudaSuccess;
    }
  return simulation.fail(cudaErrorSymbolNotFound);
}

static Kernel *findKernel(Simulation &simulation, const void *handle) {
  for (auto &[pointer, code] : simulation.codes)
    for (auto &[name, kernel] : code->kernels)
      if (&kernel == handle)
        return &kernel;
  simulation.misuse("use of a function that is gone", cudaErrorInvalidResourceHandle);
  return nullptr;
}

static cudaError_t getAttributes(cudaFuncAttributes *attributes, const void *handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  if (!findKernel(simulation, handle))
    return cudaErrorInvalidDeviceFunction;
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

static cudaError_t setAttribute(const void *handle, cudaFuncAttribute attribute, int value) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Kernel *kernel = findKernel(simulation, handle);
  if (!kernel || attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value > 160 << 10)
    return simulation.fail(cudaErrorInvalidValue);
  kernel->sharedBytes[currentGpu()] = value;
  return cudaSuccess;
}

static cudaError_t run(Simulation &simulation, const Kernel &kernel, const ptx::Launch &launch, int gpu) {
  meetHang(kernel.entry);
  auto failure = simulation.failures.find(kernel.entry);
  if (failure != simulation.failures.end() && failure->second.late)
    return simulation.failures.extract(failure).mapped().code;
  auto replaced = simulation.hostKernels.find(kernel.entry);
  if (replaced != simulation.hostKernels.end()) {
    replaced->second(launch.arguments.data());
    return cudaSuccess;
  }
  auto error = ptx::run(*kernel.code->module, launch, simulation.reachable(gpu));
  if (!error)
    return cudaSuccess;
  simulation.misuses.push_back(*error);
  return cudaErrorIllegalAddress;
}

static cudaError_t launchKernel(const void *handle, dim3 blocks, dim3 threads, void **arguments, size_t sharedBytes,
                                cudaStream_t streamHandle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Kernel *kernel = findKernel(simulation, handle);
  Stream *stream = simulation.find(streamHandle);
  if (!kernel || !stream)
    return cudaErrorInvalidResourceHandle;
  if (stream->gpu != currentGpu())
    return simulation.misuse("a launch while another GPU is current", cudaErrorInvalidResourceHandle);
  auto limit = kernel->sharedBytes.find(stream->gpu);
  if (sharedBytes > static_cast<size_t>(limit == kernel->sharedBytes.end() ? 48 << 10 : limit->second))
    return simulation.fail(cudaErrorInvalidValue);
  if (blocks.x == 0 || threads.x == 0 || threads.x > 1024 || blocks.y * blocks.z * threads.y * threads.z != 1)
    return simulation.fail(cudaErrorInvalidConfiguration);
  auto failure = simulation.failures.find(kernel->entry);
  if (failure != simulation.failures.end() && !failure->second.late)
    return simulation.fail(simulation.failures.extract(failure).mapped().code);
  if (!stream->capture)
    ++simulation.kernelLaunches;
  ptx::Launch launch;
  launch.entry = kernel->entry;
  launch.blocks = blocks.x;
  launch.threads = threads.x;
  launch.sharedBytes = static_cast<uint32_t>(sharedBytes);
  // The search for races costs more than half of the speed, and memory, that the largest launches do not have.
  constexpr uint64_t mostChecked = 64 * 1024;
  launch.checkOrder = static_cast<uint64_t>(blocks.x) * threads.x <= mostChecked;
  launch.setArguments(kernel->parameterSizes, arguments);
  // What an argument is nobody tells: one that is in an allocation is its address.
  std::vector<const void *> uses = {kernel->code};
  for (uint64_t argument : launch.arguments)
    uses.push_back(reinterpret_cast<const void *>(argument));
  auto work = [&simulation, kernel, launch = std::move(launch), gpu = stream->gpu] {
    return run(simulation, *kernel, launch, gpu);
  };
  simulation.put(*stream, std::move(work), std::move(uses));
  return cudaSuccess;
}

void fillKernels(runtime::CudaRuntime &table) {
  table.cudaLibraryLoadData = loadCode;
  table.cudaLibraryUnload = unloadCode;
  table.cudaLibraryGetKernel = getKernel;
  table.cudaFuncGetAttributes = getAttributes;
  table.cudaFuncSetAttribute = setAttribute;
  table.cudaLaunchKernel = launchKernel;
}

} // namespace cleave::simulated
