// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels for GPUs, from dfg operators to machine code: all kernels of a plan become one text of PTX.

#ifndef CLEAVE_PASSES_CODEGEN_GPUKERNELS_H
#define CLEAVE_PASSES_CODEGEN_GPUKERNELS_H

#include "dialects/plan/Plan.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace cleave {

/// A launch of a function on a grid of one dimension.
struct GpuFunction {
  std::string symbol;
  int64_t blocks = 1, threads = 1;
};

struct GpuKernelInfo {
  /// They run one after the other. None where there is nothing to compute.
  std::vector<GpuFunction> launches;
  /// Memory besides inputs and outputs, in bytes.
  uint64_t scratchBytes = 0;
};

struct GpuOptions {
  /// The oldest GPU that the code has to run on, as "sm_90".
  std::string chip = "sm_80";
  /// Multiprocessors of the GPUs that are to be kept busy, at least one (GpuModel).
  int64_t processors = 1;
  /// Plain: every operation by itself, one thread an element, sums in the order of the elements.
  bool reference = false;
  /// Threads that compile; the text does not depend on it.
  unsigned threads = 1;
  /// Whether anything will run the kernels; else the text is empty, and their launches and memory are all there is.
  bool runs = true;
};

/// A kernel whose launches are decided, and what the names of its functions begin with.
struct GpuKernelSource {
  std::string symbol;
  plan::NativeKernelOp kernel;
  /// Which outputs may lie where an input lies: that input, then that output.
  llvm::SmallVector<std::pair<unsigned, unsigned>, 2> overwrites;
};

/// PTX with functions whose parameters are a kernel's arguments: inputs, outputs, then the scratch memory if there is
/// any; 64-bit global addresses, multiples of 64. Elements lie dense and row-major, i1 one byte an element; no argument
/// may overlap another but as the kernel's source says.
struct GpuObject {
  std::string chip, ptx;
  std::vector<GpuKernelInfo> kernels;
};

/// A module's kernels for GPUs in order, named by their numbers. They know which outputs are parameters for the next
/// step, and which inputs those of this one: they may lie in the same memory.
std::vector<GpuKernelSource> gpuKernelsOf(mlir::ModuleOp module);

/// Decides the launches of kernels: fills `loops` with linalg operations that have `plan.steps` each, and sets
/// `mappings`. Fails where an operator has no reference meaning. Expects the dialects of the operations that it makes
/// to be loaded.
llvm::Error chooseGpuLaunches(mlir::MLIRContext &context, llvm::ArrayRef<GpuKernelSource> kernels,
                              const GpuOptions &options);

/// Appends to `module` the functions that a kernel's launches run, in scf, arith, math, LLVM and NVVM (emitLaunches),
/// but where nothing `runs` them, and takes the loops out of the kernel. Emits an error and fails where launches are
/// missing or impossible (readLaunches).
llvm::FailureOr<GpuKernelInfo> writeGpuLaunches(mlir::ModuleOp module, const GpuKernelSource &source, bool runs = true);

/// Compiles all kernels into one text, as their launches say; equal calls give equal texts. A function is named by its
/// kernel's symbol and the number of its launch. Fails where launches are missing or impossible
/// (GpuLaunchAttributes.h), for a chip that is unknown or too old, and where CUDA's mathematical library is needed and
/// not found. Must not run inside a pass that runs on several operations at once, as it loads dialects.
llvm::Expected<GpuObject> compileGpuKernels(mlir::MLIRContext &context, llvm::ArrayRef<GpuKernelSource> kernels,
                                            const GpuOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUKERNELS_H
