// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library kernels of a module: asks the library of a device for a kernel with the layouts that it prefers, and
// keeps one plan.library_kernel for equal ones.

#ifndef CLEAVE_PASSES_CODEGEN_LIBRARYKERNELS_H
#define CLEAVE_PASSES_CODEGEN_LIBRARYKERNELS_H

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "runtime/KernelLibrary.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace cleave {

/// A kernel that a launch may call: its symbol and the types that it takes and gives.
struct LibraryKernel {
  mlir::FlatSymbolRefAttr symbol;
  llvm::SmallVector<mlir::RankedTensorType, 4> inputs, outputs;
  runtime::KernelQuality quality = runtime::KernelQuality::Good;
  /// Of constant inputs that it takes packed, the kernel that packs them.
  llvm::SmallDenseMap<unsigned, mlir::FlatSymbolRefAttr, 1> packings;

  llvm::SmallVector<mlir::Type> getOutputTypes() const { return {outputs.begin(), outputs.end()}; }
};

/// A device as the one who chooses its kernels sees it.
struct KernelDevice {
  /// The library of the device's driver.
  const runtime::KernelLibrary *library = nullptr;
  unsigned threads = 1;
  /// float32 numbers in a vector of the processor.
  int64_t lanes = 16;
  /// Whether the library multiplies integers of 8 bits faster than reals on the processor, and exactly.
  bool multipliesIntegers = false;
  /// LibraryKernelQuery::mayTransform.
  bool mayTransform = true;
  /// Several programs run on it, as entries for batches do, with one set of weights.
  bool sharesWeights = false;
};

/// The device that a program runs on.
KernelDevice kernelDeviceOf(dist::ProgramOp program);

class LibraryKernels {
public:
  explicit LibraryKernels(mlir::ModuleOp module) : module(module) {}

  /// The kernel for a query on a device; fails where the device's library has none for it.
  llvm::FailureOr<LibraryKernel> get(const runtime::LibraryKernelQuery &query, KernelDevice device);

private:
  /// The kernel of that choice, one for equal ones; `suffix` names who computes it.
  const LibraryKernel &insert(const runtime::LibraryChoice &choice, llvm::StringRef suffix);

  mlir::ModuleOp module;
  llvm::StringMap<LibraryKernel> byQuery, byKernel;
  llvm::StringSet<llvm::MallocAllocator> refused;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_LIBRARYKERNELS_H
