// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a kernel's nests as functions of loads, stores and scalar operations.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVEEMISSION_H
#define CLEAVE_PASSES_CODEGEN_NATIVEEMISSION_H

#include "passes/codegen/NativeNests.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Appends to `module` the function `symbol(arguments, begin, end)`, which takes the arguments apart, and the function
/// that it calls with one pointer a buffer, none aliasing another, which holds the loops, and the constant
/// `symbol.declared` that says what the kernel takes (runtime/plan.fbs, NativeObject). Returns the bytes of scratch
/// memory that the temporaries outside the stack need.
/// `reassociate`: sums and products along a reduction may be joined in any order.
uint64_t emitKernel(mlir::ModuleOp module, llvm::StringRef symbol, const NestPlan &plan, const Storage &storage,
                    bool reassociate);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVEEMISSION_H
