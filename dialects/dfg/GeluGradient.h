// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recognizes the gradient of GELU in the operators that dfg.gelu's differentiation writes: libraries compute it in one
// piece.

#ifndef CLEAVE_DIALECTS_DFG_GELUGRADIENT_H
#define CLEAVE_DIALECTS_DFG_GELUGRADIENT_H

#include "mlir/IR/Operation.h"

namespace cleave::dfg {

/// The x where `product` is the product of its operand `chained` and the derivative of `dfg.gelu {approximate}` (the
/// form with tanh) at x, all of one type; null where it is anything else. The exact form, with erf, has another
/// derivative.
mlir::Value findGeluTanhGradientInput(mlir::Operation *product, unsigned chained);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_GELUGRADIENT_H
