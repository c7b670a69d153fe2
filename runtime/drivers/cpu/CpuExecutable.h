// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a cpu device: native functions, and instances of library kernels.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_CPUEXECUTABLE_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_CPUEXECUTABLE_H

#include "runtime/Executable.h"
#include "runtime/drivers/cpu/LibraryKernel.h"
#include "runtime/drivers/cpu/NativeLibrary.h"

#include <mutex>
#include <set>

namespace cleave::runtime {

/// The native objects of a plan, each loaded when first needed and shared by the devices. Thread-safe.
class NativeLibraries {
public:
  explicit NativeLibraries(const Plan &plan);
  Expected<std::shared_ptr<NativeLibrary>> get(uint32_t object);
  /// Before the first kernel: whether this machine has the processor that the plan needs.
  Error checkPlan() const;

private:
  const Plan plan;
  const std::set<std::string> features;
  std::mutex mutex;
  std::vector<std::shared_ptr<NativeLibrary>> loaded;
};

/// Kernels loaded for a team of `threads` OpenMP threads.
class CpuExecutable : public Executable {
public:
  /// Loads the kernels that the programs call.
  static Expected<std::unique_ptr<CpuExecutable>> load(const Plan &plan, std::span<const Program *const> programs,
                                                       NativeLibraries &libraries, unsigned threads);
  /// Splits a native kernel's parallel loop evenly over the calling thread's team.
  Error call(uint32_t kernel, void *const *arguments) override;

private:
  struct Loaded {
    NativeFunction function = nullptr;
    int64_t extent = 0;
    std::shared_ptr<NativeLibrary> library;
    std::unique_ptr<LibraryKernelInstance> instance;
  };
  explicit CpuExecutable(unsigned threads) : threads(threads) {}
  Error load(const Plan &plan, const Program &program, NativeLibraries &libraries);
  static Expected<Loaded> loadNative(const Kernel &kernel, NativeLibraries &libraries);
  static Expected<Loaded> loadLibrary(const Plan &plan, const Kernel &kernel, const LibraryKernel &library,
                                      unsigned threads);

  const unsigned threads;
  std::vector<Loaded> kernels; // by index in the plan; empty where no program calls it
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_CPUEXECUTABLE_H
