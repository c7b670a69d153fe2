// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What operators mean where many threads share the work.

#ifndef CLEAVE_PASSES_CODEGEN_GPUOPERATORS_H
#define CLEAVE_PASSES_CODEGEN_GPUOPERATORS_H

#include "passes/codegen/LowerBody.h"

namespace cleave {

/// As `lowerOperator`, for GPUs: in an order that threads can divide where the operator's own meaning is one after the
/// other. The results are the same.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> lowerGpuOperator(mlir::OpBuilder &builder, mlir::Operation *op,
                                                                 mlir::ValueRange operands);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUOPERATORS_H
