// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins linalg operations on tensors, so that values between them are never stored.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVEFUSION_H
#define CLEAVE_PASSES_CODEGEN_NATIVEFUSION_H

#include "mlir/IR/Operation.h"

namespace cleave {

/// Joins elementwise producers into the operations of `container` that use them, reductions included, where nothing
/// costly is computed twice.
void fuseLinalgOperations(mlir::Operation *container);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVEFUSION_H
