// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The linalg meaning of a whole block of operators.

#ifndef CLEAVE_PASSES_CODEGEN_LOWERBODY_H
#define CLEAVE_PASSES_CODEGEN_LOWERBODY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Builds the meaning of one operator from its operands.
using OperatorLowering = llvm::FailureOr<llvm::SmallVector<mlir::Value>> (*)(mlir::OpBuilder &builder,
                                                                             mlir::Operation *op,
                                                                             mlir::ValueRange operands);

/// Builds the meaning of one operator: of a LowerInterface, of a fusion, or of a constant.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> lowerOperator(mlir::OpBuilder &builder, mlir::Operation *op,
                                                              mlir::ValueRange operands);

/// Builds what `block` computes from `inputs`, one a block argument, at the builder's insertion point, and returns the
/// values of its terminator's operands. Fails with an error on the operator that has no reference meaning.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> lowerBody(mlir::OpBuilder &builder, mlir::Block &block,
                                                          mlir::ValueRange inputs,
                                                          OperatorLowering lower = lowerOperator);

/// Appends to `module` a function `name` on tensors that computes what `body` does: its arguments are those of the
/// body, its results the operands of the body's terminator. Unsigned integers have become signless ones, and the casts
/// between them (dialects/dfg/LowerElements.h) are gone. Fails as `lowerBody` does.
llvm::FailureOr<mlir::func::FuncOp> lowerToFunction(mlir::ModuleOp module, llvm::StringRef name, mlir::Region &body,
                                                    OperatorLowering lower = lowerOperator);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_LOWERBODY_H
