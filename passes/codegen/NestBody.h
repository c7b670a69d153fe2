// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes what a linalg operation computes in one iteration.

#ifndef CLEAVE_PASSES_CODEGEN_NESTBODY_H
#define CLEAVE_PASSES_CODEGEN_NESTBODY_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"

namespace cleave {

/// Where a body gets from what it does not see as an element of an operand.
struct BodySource {
  /// The index (type `index`) at which a loop of the operation stands.
  llvm::function_ref<mlir::Value(unsigned loop)> loopIndex;
  /// An element that the body reads by itself, at indices of type `index`.
  llvm::function_ref<mlir::Value(mlir::Value tensor, mlir::ValueRange indices)> loadElement;
};

/// Writes the body of `op` at the builder's insertion point and returns what it yields. `mapping` holds the elements of
/// the operands, and gains the values of the body.
llvm::SmallVector<mlir::Value> writeBody(mlir::OpBuilder &builder, mlir::linalg::LinalgOp op, mlir::IRMapping &mapping,
                                         const BodySource &source);

/// The operation that joins an iteration of a reduction with the result so far, where that is all that becomes of both
/// and iterations may be joined in any order; else null.
mlir::Operation *joinIn(mlir::linalg::LinalgOp op, unsigned result);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NESTBODY_H
