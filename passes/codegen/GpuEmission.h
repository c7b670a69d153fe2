// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the launches of a GPU's kernel as functions of loads, stores and scalar operations.

#ifndef CLEAVE_PASSES_CODEGEN_GPUEMISSION_H
#define CLEAVE_PASSES_CODEGEN_GPUEMISSION_H

#include "passes/codegen/GpuLaunches.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Appends to `module` the function `symbol` that a launch of `plan` runs; its parameters are all arguments of the
/// kernel.
void emitLaunch(mlir::ModuleOp module, llvm::StringRef symbol, const GpuKernelPlan &plan, const GpuLaunch &launch,
                const Storage &storage);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUEMISSION_H
