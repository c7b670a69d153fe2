// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library kernels of a module: asks the library for a kernel with the layouts that it prefers, and keeps one
// plan.library_kernel for equal ones.

#ifndef CLEAVE_PASSES_CODEGEN_LIBRARYKERNELS_H
#define CLEAVE_PASSES_CODEGEN_LIBRARYKERNELS_H

#include "dialects/plan/Plan.h"
#include "runtime/drivers/cpu/OneDnn.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace cleave {

/// A kernel that a launch may call: its symbol and the types that it takes and gives.
struct LibraryKernel {
  mlir::FlatSymbolRefAttr symbol;
  llvm::SmallVector<mlir::RankedTensorType, 4> inputs;
  mlir::RankedTensorType output;
  /// What the library calls its code for it.
  llvm::StringRef implementation;
};

class LibraryKernels {
public:
  explicit LibraryKernels(mlir::ModuleOp module) : module(module) {}

  /// The kernel for a query on a device of `threads` cores; fails where the library has none for it.
  llvm::FailureOr<LibraryKernel> get(const runtime::LibraryKernelQuery &query, unsigned threads);

private:
  LibraryKernel insert(const runtime::LibraryKernelDesc &desc);

  mlir::ModuleOp module;
  llvm::StringMap<LibraryKernel> byQuery, byKernel;
  llvm::StringSet<llvm::MallocAllocator> refused;
};

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_LIBRARYKERNELS_H
