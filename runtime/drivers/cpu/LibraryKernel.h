// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cpu driver's door to kernel libraries: what a library must offer to run the kernels of a plan. oneDNN stands
// behind it where it is built in (runtime/drivers/cpu/OneDnn.h).

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_LIBRARYKERNEL_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_LIBRARYKERNEL_H

#include "runtime/LibraryKernelDesc.h"

#include <memory>
#include <string_view>

namespace cleave::runtime {

/// A kernel ready to run on one device. Only that device's compute thread runs it, one call at a time.
class LibraryKernelInstance {
public:
  virtual ~LibraryKernelInstance() = default;
  /// Runs the kernel and returns when its outputs are complete. Arguments: inputs, outputs, then one scratch buffer
  /// if scratchBytes > 0; all 64-byte aligned.
  virtual Error run(void *const *arguments) = 0;
};

/// A kernel library. Thread-safe: several devices load kernels at the same time.
class LibraryProvider {
public:
  virtual ~LibraryProvider() = default;
  /// Makes the kernel for a team of `threads` OpenMP threads. The calling thread has omp_set_num_threads(threads) in
  /// force, as has the thread that will run it. Status::Unsupported when the library cannot run it as described,
  /// Status::Rejected when the description contradicts itself.
  virtual Expected<std::unique_ptr<LibraryKernelInstance>> load(const LibraryKernelDesc &desc, unsigned threads) = 0;
};

/// The library of that name ("onednn"), or null when this build has none. It lives as long as the program.
/// With CLEAVE_ONEDNN this calls `std::unique_ptr<LibraryProvider> createOneDnnProvider()` of OneDnn.h.
LibraryProvider *findLibraryProvider(std::string_view library);

/// Has the libraries of this process use no instructions but those of a processor with these features (LLVM's names),
/// so that they choose the kernels and layouts that they would choose there. Instructions that this machine lacks are
/// not used whatever `features` has. Holds for the whole process, from its first kernel on: Status::Infeasible when the
/// libraries have begun to use others already, Status::Unsupported for a processor that they have no way to keep to.
Error limitLibraries(const std::vector<std::string> &features);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_LIBRARYKERNEL_H
