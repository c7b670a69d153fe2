// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles regions of dfg operators to machine code: all kernels of a plan become one ELF shared object.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVEKERNELS_H
#define CLEAVE_PASSES_CODEGEN_NATIVEKERNELS_H

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Region.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// A kernel to compile. The block's arguments are the inputs, the terminator's operands the results, the operations
/// between them dfg operators. Nothing in the region is changed.
struct KernelSource {
  std::string symbol;
  mlir::Region *body;
};

struct NativeKernelInfo {
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
  /// Threads that compile; the object does not depend on it.
  unsigned threads = 1;
};

/// Where the time of a compilation goes: processor time in seconds, summed over threads.
struct NativeTimes {
  double linalg = 0, loops = 0, dialect = 0, translate = 0, optimize = 0, emit = 0, link = 0;
};

/// An ELF shared object with one function `void symbol(void **arguments, int64_t begin, int64_t end)` a kernel.
/// Arguments: inputs, outputs, then the scratch memory if there is any; dense row-major, i1 one byte an element; none
/// may overlap another. [begin, end) is a part of [0, parallelExtent).
struct NativeObject {
  std::string triple, cpu;
  std::vector<std::string> features;
  std::vector<char> image;
  std::vector<NativeKernelInfo> kernels;
  NativeTimes times;
};

/// Compiles all kernels into one object; equal calls give equal bytes. Fails where an operator has no reference
/// meaning, and where LLVM does not know the processor. Must not run inside a pass that runs on several operations at
/// once, as it loads dialects.
llvm::Expected<NativeObject> compileNativeKernels(mlir::MLIRContext &context, llvm::ArrayRef<KernelSource> kernels,
                                                  const NativeOptions &options);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVEKERNELS_H
