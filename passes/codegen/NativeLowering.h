// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From loops and scalar arithmetic to the LLVM dialect.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVELOWERING_H
#define CLEAVE_PASSES_CODEGEN_NATIVELOWERING_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Lowers all that is not LLVM yet in a module of emitted kernels. Functions of f32 become polynomials, which can be
/// vectorized, unless `exactFunctions` asks for libm.
llvm::LogicalResult lowerToLlvmDialect(mlir::ModuleOp module, bool exactFunctions);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVELOWERING_H
