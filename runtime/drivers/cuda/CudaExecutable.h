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

/// Text of PTX, loaded for all GPUs. The function keeps no reference to `ptx`, which must end with a zero.
Expected<CudaCode> loadCudaCode(const CudaRuntime &cuda, const char *ptx);
/// A function of it. Status::Rejected when there is none of that name.
Expected<cudaKernel_t> findCudaKernel(const CudaRuntime &cuda, const CudaCode &code, const std::string &symbol);

/// The PTX of a plan, each object loaded when first needed and shared by the devices. Thread-safe.
class CudaCodes {
public:
  CudaCodes(const CudaRuntime &cuda, const CudaGpus &gpus, const Plan &plan) : cuda(cuda), gpus(gpus), plan(plan) {}
  /// A function of an object, for use on the GPU.
  Expected<cudaKernel_t> find(uint32_t object, const std::string &symbol, int gpu);

private:
  const CudaRuntime &cuda;
  const CudaGpus &gpus;
  const Plan plan;
  std::mutex mutex;
  std::map<uint32_t, CudaCode> loaded;
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
