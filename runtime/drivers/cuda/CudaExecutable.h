// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a cuda device: functions of PTX that CUDA translates for the GPU, and library kernels.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAEXECUTABLE_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAEXECUTABLE_H

#include "runtime/drivers/cuda/CudaGpus.h"
#include "runtime/drivers/cuda/CudaLibraryKernel.h"
#include "runtime/drivers/cuda/CudaObjects.h"

#include <map>
#include <mutex>

namespace cleave::runtime {

/// Text of PTX, for all GPUs. CUDA may translate it long after it was loaded, and writes what it has to say where it
/// was told when that happened.
class CudaModule {
public:
  CudaModule() = default;
  /// Keeps no reference to `ptx`, which must end with a zero. Status::Rejected when CUDA refuses it.
  static Expected<CudaModule> load(const CudaRuntime &cuda, const char *ptx);
  /// The driver's own code: loaded once in the process, and there for as long as somebody uses it. `what` says in
  /// errors what it is. Thread-safe.
  static Expected<std::shared_ptr<const CudaModule>> share(const CudaRuntime &cuda, const unsigned char *ptx,
                                                           const char *what);
  /// A function of it, translated for the current GPU. Status::Rejected when there is none of that name, or it is not
  /// one that can be translated; Status::Infeasible when it can have no blocks of `threads` threads.
  Expected<cudaKernel_t> find(const CudaRuntime &cuda, const std::string &symbol, uint32_t threads) const;
  explicit operator bool() const { return bool(code); }

private:
  /// What CUDA is told about translating, at addresses that last as long as the code.
  struct Translation {
    char log[8192] = {};
    cudaJitOption options[2] = {cudaJitErrorLogBuffer, cudaJitErrorLogBufferSizeBytes};
    void *values[2] = {log, reinterpret_cast<void *>(sizeof log - 1)};
  };
  Error refused(const CudaRuntime &cuda, cudaError_t status, const std::string &what) const;

  // In this order: the code goes first.
  std::unique_ptr<Translation> translation;
  CudaCode code;
};

/// The PTX of a plan, each object loaded when first needed and shared by the devices. Thread-safe.
class CudaCodes {
public:
  CudaCodes(const CudaRuntime &cuda, const CudaGpus &gpus, const Plan &plan) : cuda(cuda), gpus(gpus), plan(plan) {}
  /// A function of an object, for use on the GPU, which is current.
  Expected<cudaKernel_t> find(uint32_t object, const GpuLaunch &launch, int gpu);

private:
  const CudaRuntime &cuda;
  const CudaGpus &gpus;
  const Plan plan;
  std::mutex mutex;
  std::map<uint32_t, CudaModule> loaded;
};

/// Kernels loaded for one device. `load` and `enqueue` need the device's GPU to be current.
class CudaExecutable {
public:
  CudaExecutable(const CudaRuntime &cuda, const Plan &plan, int gpu) : cuda(cuda), plan(plan), gpu(gpu) {}
  /// Loads the kernels that the program calls, but for those that are there.
  Error load(const Program &program, CudaCodes &codes);
  /// Has a library kernel choose its algorithm, if it has not yet: with these arguments, which are as before
  /// afterwards. The device must be idle; synchronizes. `sizes` are the bytes of the arguments.
  Error choose(uint32_t kernel, std::span<void *const> arguments, std::span<const uint64_t> sizes, cudaStream_t stream);
  /// Puts the kernel with that index in the plan on the stream. Arguments: inputs, outputs, then scratch if it has any.
  Error enqueue(uint32_t kernel, std::span<void *const> arguments, cudaStream_t stream);

private:
  struct Launch {
    cudaKernel_t function = nullptr;
    GpuLaunch shape;
  };
  struct Loaded {
    bool isThere = false, hasChosen = false;
    std::vector<Launch> launches;
    std::unique_ptr<CudaLibraryKernel> library;
  };
  Expected<Loaded> load(const Kernel &kernel, CudaCodes &codes) const;

  const CudaRuntime &cuda;
  const Plan plan;
  const int gpu;
  std::map<uint32_t, Loaded> kernels; ///< by index in the plan
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAEXECUTABLE_H
