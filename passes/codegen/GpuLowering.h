// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From loops and scalar arithmetic of a GPU's kernels to the LLVM dialect.

#ifndef CLEAVE_PASSES_CODEGEN_GPULOWERING_H
#define CLEAVE_PASSES_CODEGEN_GPULOWERING_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Lowers all that is neither LLVM nor NVVM yet in a module of emitted kernels. Mathematical functions become calls of
/// CUDA's library.
llvm::LogicalResult lowerToNvvmDialect(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPULOWERING_H
