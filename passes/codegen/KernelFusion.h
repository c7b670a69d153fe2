// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which operators may share a kernel of our own.

#ifndef CLEAVE_PASSES_CODEGEN_KERNELFUSION_H
#define CLEAVE_PASSES_CODEGEN_KERNELFUSION_H

#include "mlir/IR/Operation.h"

namespace cleave {

/// The operator reads every element of the operand just once, whatever it does with it.
bool readsOnce(mlir::OpOperand &use);

/// A contraction or a reduction with one result.
bool isSum(mlir::Operation *op);

/// Whether `producer`, whose result `use` reads and nobody else, may become a part of the reader's kernel: elementwise
/// operators join all that read them once, sums only elementwise operators.
bool mayJoin(mlir::Operation *producer, mlir::OpOperand &use);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_KERNELFUSION_H
