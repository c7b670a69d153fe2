// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the launches of a GPU's kernel as functions of loads, stores and scalar operations.

#ifndef CLEAVE_PASSES_CODEGEN_GPUEMISSION_H
#define CLEAVE_PASSES_CODEGEN_GPUEMISSION_H

#include "passes/codegen/GpuLaunches.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Appends to `module` the function `symbol` that runs launches of `plan` side by side: the blocks of the first, then
/// those of the next. Its parameters are all arguments of the kernel.
void emitLaunches(mlir::ModuleOp module, llvm::StringRef symbol, const GpuKernelPlan &plan,
                  llvm::ArrayRef<GpuLaunch> launches, const Storage &storage);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUEMISSION_H
