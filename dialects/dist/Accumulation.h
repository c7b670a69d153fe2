// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mark of operators that add to what is summed up over much of a step.

#ifndef CLEAVE_DIALECTS_DIST_ACCUMULATION_H
#define CLEAVE_DIALECTS_DIST_ACCUMULATION_H

#include "mlir/IR/Operation.h"

namespace cleave::dist {

/// On an operator: a kernel may end with it, but none goes on with what reads its result. Else the sum would wait for
/// that, with all that it is a sum of. In ordered programs it adds up gradients, in a ring what comes around.
inline constexpr llvm::StringLiteral accumulatesAttrName = "dist.accumulates";

/// Whether an operator, or one inside of it, adds to what it reads here, a sum whose terms so far come from earlier
/// microbatches, and what made that sum reads more bytes than the sum has: computed here it would keep these until now.
bool waitsForSum(mlir::OpOperand &use);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_ACCUMULATION_H
