// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels for processors, from dfg operators to machine code: all kernels of a plan become one ELF shared object.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVEKERNELS_H
#define CLEAVE_PASSES_CODEGEN_NATIVEKERNELS_H

#include "passes/codegen/NativeTarget.h"

#include "dialects/plan/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave {

struct NativeKernelInfo {
  /// The name of its function, the same for the same code.
  std::string symbol;
  /// The size of the outermost parallel loop; 1 where the kernel cannot be divided, or has nothing to do.
  int64_t parallelExtent = 1;
  /// Memory besides inputs and outputs, in bytes. Calls that compute parts of one range share it.
  uint64_t scratchBytes = 0;
};

struct NativeOptions {
  /// The processor to compile for (NativeTarget::create).
  std::string cpu;
  /// Its features where they were chosen already; `cpu` is then only tuned for, and `features` do not count.
  std::optional<std::vector<std::string>> exactFeatures;
  /// Features to add or remove, "+avx2,-avx512f".
  std::string features;
  /// Plain loops in the order of the operators: no fusion, no reassociation, no polynomials, libm for functions.
  bool reference = false;
  /// Threads that work; what they make does not depend on it.
  unsigned threads = 1;

  /// Fails where LLVM does not know the processor.
  llvm::Expected<NativeTarget> createTarget() const;
};

/// A module's kernels for processors, in order.
llvm::SmallVector<plan::NativeKernelOp> nativeKernelsOf(mlir::ModuleOp module);

/// What a module's kernels compile for: `cpu`, or where that is empty its `plan.processor`.
NativeOptions nativeOptionsOf(mlir::ModuleOp module, llvm::StringRef cpu);

/// An ELF shared object with one function `void symbol(void **arguments, int64_t begin, int64_t end)` a kernel.
/// Arguments: inputs, outputs, then the scratch memory if there is any; dense row-major, i1 one byte an element; none
/// may overlap another. [begin, end) is a part of [0, parallelExtent).
struct NativeObject {
  std::string triple, cpu;
  std::vector<std::string> features;
  std::vector<char> image;
  std::vector<NativeKernelInfo> kernels;
};

/// Decides the loops of kernels: fills `loops` with linalg operations that have a `plan.nest` each, and sets `common`.
/// Fails where an operator has no reference meaning, and where LLVM does not know the processor. Expects the dialects
/// of the operations that it makes to be loaded.
llvm::Error chooseNativeLoops(mlir::MLIRContext &context, llvm::ArrayRef<plan::NativeKernelOp> kernels,
                              const NativeOptions &options);

/// Appends to `module` the functions that compute a kernel as its loops say, in scf, arith, math and LLVM (emitKernel),
/// and takes the loops out of the kernel. The kernel's function is `symbol`. `reference`: sums stay in order. Emits an
/// error and fails where loops are missing or impossible (readNests).
llvm::FailureOr<NativeKernelInfo> writeNativeLoops(mlir::ModuleOp module, plan::NativeKernelOp kernel,
                                                   llvm::StringRef symbol, bool reference);

/// Compiles all kernels into one object, as their loops say, or takes what was compiled before (ObjectCache.h); equal
/// calls give equal bytes. Fails where loops are
/// missing or impossible (NestAttributes.h), and where LLVM does not know the processor. Must not run inside a pass
/// that runs on several operations at once, as it loads dialects.
llvm::Expected<NativeObject> compileNativeKernels(mlir::MLIRContext &context,
                                                  llvm::ArrayRef<plan::NativeKernelOp> kernels,
                                                  const NativeOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVEKERNELS_H
