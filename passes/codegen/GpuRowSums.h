// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over everything, as sums of rows.

#ifndef CLEAVE_PASSES_CODEGEN_GPUROWSUMS_H
#define CLEAVE_PASSES_CODEGEN_GPUROWSUMS_H

#include "mlir/IR/Operation.h"

namespace cleave {

/// Divides reductions of linalg operations in `container` that join more than rows, of elements that are made row by
/// row, as a loss of logits after a softmax: one joins each row, with what makes its elements, and one joins the rows.
void divideSumsByRows(mlir::Operation *container);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPUROWSUMS_H
