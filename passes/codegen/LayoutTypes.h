// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between MLIR's tensor types with #plan.layout and the runtime's tensor types.

#ifndef CLEAVE_PASSES_CODEGEN_LAYOUTTYPES_H
#define CLEAVE_PASSES_CODEGEN_LAYOUTTYPES_H

#include "runtime/TensorType.h"

#include "mlir/IR/BuiltinTypes.h"

namespace cleave {

/// The runtime's type of a statically shaped tensor of a type that plans know.
runtime::TensorType toRuntimeType(mlir::RankedTensorType type);

/// The MLIR type; a layout that is row-major is dropped.
mlir::RankedTensorType fromRuntimeType(mlir::MLIRContext *context, const runtime::TensorType &type);

/// The type of a matrix (its last two dimensions) whose transpose lies row-major in memory.
mlir::RankedTensorType transposedInMemory(mlir::RankedTensorType type);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_LAYOUTTYPES_H
