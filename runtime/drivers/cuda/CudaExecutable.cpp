// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads a program's kernels and launches them.

#include "runtime/drivers/cuda/CudaExecutable.h"

namespace cleave::runtime {

/// The error of translating code, with what CUDA wrote about it.
Error CudaModule::refused(const CudaRuntime &cuda, cudaError_t status, const std::string &what) const {
  if (status == cudaSuccess)
    return Error::success();
  (void)cuda.cudaGetLastError();
  if (status == cudaErrorUnsupportedPtxVersion)
    return makeError(Status::Infeasible, what,
                     ": the GPU's driver is older than the PTX that it is to run; install a "
                     "newer driver, or compile with an older toolkit");
  Error error = checkCuda(cuda, status, what.c_str(), Status::Rejected);
  const char *log = translation->log;
  return log[0] ? Error(error.status(), error.message() + ": " + log) : error;
}

Expected<CudaModule> CudaModule::load(const CudaRuntime &cuda, const char *ptx) {
  CudaModule module;
  module.translation = std::make_unique<Translation>();
  Translation &how = *module.translation;
  cudaLibrary_t library = nullptr;
  cudaError_t status =
      cuda.cudaLibraryLoadData(&library, ptx, how.options, how.values, std::size(how.options), nullptr, nullptr, 0);
  if (Error error = module.refused(cuda, status, "translating PTX"))
    return error;
  module.code = CudaCode(cuda, library);
  return module;
}

Expected<std::shared_ptr<const CudaModule>> CudaModule::share(const CudaRuntime &cuda, const unsigned char *ptx,
                                                              const char *what) {
  static std::mutex mutex;
  static std::map<std::pair<const CudaRuntime *, const unsigned char *>, std::weak_ptr<const CudaModule>> known;
  std::lock_guard lock(mutex);
  std::weak_ptr<const CudaModule> &place = known[{&cuda, ptx}];
  if (auto module = place.lock())
    return module;
  auto made = load(cuda, reinterpret_cast<const char *>(ptx));
  if (!made)
    return Error(made.error().status(), std::string(what) + ": " + made.error().message());
  auto module = std::make_shared<const CudaModule>(std::move(*made));
  place = module;
  return module;
}

/// Asking for the function's attributes has it translated now, and not in the middle of a step.
Expected<cudaKernel_t> CudaModule::find(const CudaRuntime &cuda, const std::string &symbol, uint32_t threads) const {
  cudaKernel_t kernel = nullptr;
  cudaError_t status = cuda.cudaLibraryGetKernel(&kernel, code.get(), symbol.c_str());
  cudaFuncAttributes attributes = {};
  if (status == cudaSuccess)
    status = cuda.cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(kernel));
  if (Error error = refused(cuda, status, "function \"" + symbol + "\""))
    return error;
  if (threads > static_cast<uint32_t>(attributes.maxThreadsPerBlock))
    return makeError(Status::Infeasible, "function \"", symbol, "\" expects blocks of ", threads,
                     " threads, and has room for ", attributes.maxThreadsPerBlock, " on this GPU");
  return kernel;
}

Expected<cudaKernel_t> CudaCodes::find(uint32_t index, const GpuLaunch &launch, int gpu) {
  std::lock_guard lock(mutex);
  const NativeObject &object = plan->objects[index];
  if (object.triple != ptxTriple)
    return makeError(Status::Infeasible, "native code expects a processor for \"", object.triple,
                     "\", got an NVIDIA GPU; compile the model for devices of driver \"cuda\"");
  if (Error error = gpus.checkChip(gpu, object.cpu))
    return error;
  CudaModule &module = loaded[index];
  if (!module) {
    std::string text(reinterpret_cast<const char *>(object.image.data()), object.image.size());
    auto made = CudaModule::load(cuda, text.c_str());
    if (!made)
      return made.error();
    module = std::move(*made);
  }
  return module.find(cuda, launch.symbol, launch.threads);
}

Error CudaExecutable::load(const Program &program, CudaCodes &codes) {
  for (Phase phase : {Phase::Prepare, Phase::Body})
    for (const Instruction &instruction : program.instructions(phase)) {
      const auto *call = std::get_if<Call>(&instruction.action);
      if (!call || kernels[call->kernel].isThere)
        continue;
      const Kernel &kernel = plan->kernels[call->kernel];
      auto made = load(kernel, codes);
      if (!made)
        return Error(made.error().status(), "kernel \"" + kernel.name + "\": " + made.error().message(),
                     instruction.node);
      kernels[call->kernel] = std::move(*made);
    }
  return Error::success();
}

Expected<CudaExecutable::Loaded> CudaExecutable::load(const Kernel &kernel, CudaCodes &codes) const {
  Loaded loaded;
  loaded.isThere = true;
  if (const auto *library = std::get_if<LibraryKernel>(&kernel.body)) {
    auto made = loadCudaLibraryKernel(kernel, *library);
    if (!made)
      return made.error();
    loaded.library = std::move(*made);
    return loaded;
  }
  const auto *compiled = std::get_if<GpuKernel>(&kernel.body);
  if (!compiled)
    return makeError(Status::Unsupported, "it was compiled for processors and its device is an NVIDIA GPU; compile the "
                                          "model for devices of driver \"cuda\"");
  // What a block may have without asking for more.
  constexpr uint32_t usualSharedBytes = 48 << 10;
  for (const GpuLaunch &shape : compiled->launches) {
    auto function = codes.find(compiled->object, shape, gpu);
    if (!function)
      return function.error();
    if (shape.sharedBytes > usualSharedBytes) {
      cudaError_t code =
          cuda.cudaFuncSetAttribute(reinterpret_cast<const void *>(*function),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.sharedBytes));
      if (Error error = checkCuda(cuda, code, "asking for shared memory", Status::Infeasible))
        return error;
    }
    loaded.launches.push_back({*function, shape});
  }
  return loaded;
}

/// An argument that a kernel writes may be one that it reads, which measuring must not change.
Error CudaExecutable::choose(uint32_t index, std::span<void *const> arguments, std::span<const uint64_t> sizes,
                             cudaStream_t stream) {
  Loaded &kernel = kernels.at(index);
  if (!kernel.library || kernel.hasChosen)
    return Error::success();
  const size_t inputs = plan->kernels[index].inputs.size();
  auto overlaps = [&](size_t a, size_t b) {
    auto begin = [&](size_t i) { return static_cast<const std::byte *>(arguments[i]); };
    return begin(a) < begin(b) + sizes[b] && begin(b) < begin(a) + sizes[a];
  };
  std::vector<std::pair<size_t, CudaMemory>> kept;
  for (size_t output = inputs; output < arguments.size(); ++output)
    for (size_t input = 0; input != inputs; ++input)
      if (overlaps(output, input)) {
        auto memory = allocateCudaMemory(cuda, gpu, sizes[output]);
        if (!memory)
          return memory.error();
        kept.emplace_back(output, std::move(*memory));
        break;
      }
  auto copyAll = [&](bool back) {
    for (auto &[output, memory] : kept) {
      void *from = back ? memory.get() : arguments[output], *to = back ? arguments[output] : memory.get();
      if (Error error = checkCuda(cuda, cuda.cudaMemcpyAsync(to, from, sizes[output], cudaMemcpyDeviceToDevice, stream),
                                  "copying on a GPU"))
        return error;
    }
    return checkCuda(cuda, cuda.cudaStreamSynchronize(stream), "copying on a GPU");
  };
  if (Error error = copyAll(/*back=*/false))
    return error;
  if (Error error = kernel.library->choose(arguments.data(), stream))
    return error;
  kernel.hasChosen = true;
  return copyAll(/*back=*/true);
}

Error CudaExecutable::enqueue(uint32_t index, std::span<void *const> arguments, cudaStream_t stream) {
  Loaded &kernel = kernels.at(index);
  if (kernel.library)
    return kernel.library->enqueue(arguments.data(), stream);
  // CUDA wants the address of each argument, and copies what is there.
  std::vector<void *> addresses;
  for (void *const &argument : arguments)
    addresses.push_back(const_cast<void **>(&argument));
  for (const Launch &launch : kernel.launches) {
    cudaError_t code =
        cuda.cudaLaunchKernel(reinterpret_cast<const void *>(launch.function), dim3(launch.shape.blocks),
                              dim3(launch.shape.threads), addresses.data(), launch.shape.sharedBytes, stream);
    if (Error error = checkCuda(cuda, code, "launching a kernel"))
      return error;
  }
  return Error::success();
}

} // namespace cleave::runtime
