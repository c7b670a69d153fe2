// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What arguments of a graph say about themselves, besides their names.

#ifndef CLEAVE_DIALECTS_DFG_PORTATTRIBUTES_H
#define CLEAVE_DIALECTS_DFG_PORTATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace cleave::dfg {

/// On an argument that holds labels: how many classes there are; an i64.
inline constexpr llvm::StringLiteral classesAttrName = "dfg.classes";

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_PORTATTRIBUTES_H
