// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of a pooling, computed for each position of the input by itself.

#ifndef CLEAVE_DIALECTS_DFG_GATHERPOOLGRADIENT_H
#define CLEAVE_DIALECTS_DFG_GATHERPOOLGRADIENT_H

#include "dialects/dfg/Dfg.h"

namespace cleave::dfg {

/// The pooling's gradient as an operation on each element of its result, with the same bits as lowerToLinalg's: a
/// position adds up what the windows that cover it give to it, in their order. No padded copies are made. Null where
/// lowerToLinalg computes each element by itself, too: without elements, and for averages of a partition.
mlir::Value gatherPoolGradient(mlir::OpBuilder &builder, PoolGradientOp op, mlir::ValueRange operands);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_GATHERPOOLGRADIENT_H
