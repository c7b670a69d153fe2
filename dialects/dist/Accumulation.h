// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mark of operators that add to what is summed up over much of a step.

#ifndef CLEAVE_DIALECTS_DIST_ACCUMULATION_H
#define CLEAVE_DIALECTS_DIST_ACCUMULATION_H

#include "llvm/ADT/StringRef.h"

namespace cleave::dist {

/// On an operator of an ordered graph or program: a kernel may end with it, but none goes on with what reads its
/// result. Else the sum would wait for that, with all that it is a sum of.
inline constexpr llvm::StringLiteral accumulatesAttrName = "dist.accumulates";

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_ACCUMULATION_H
