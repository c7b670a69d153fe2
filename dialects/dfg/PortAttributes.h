// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What graphs, their arguments and results say about themselves, besides their names.

#ifndef CLEAVE_DIALECTS_DFG_PORTATTRIBUTES_H
#define CLEAVE_DIALECTS_DFG_PORTATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace cleave::dfg {

/// On a graph that trains or evaluates, where there is one for each of several lengths of sequences: its own length; an
/// i64.
inline constexpr llvm::StringLiteral bucketAttrName = "dfg.bucket";
/// On an argument that holds labels: how many classes there are; an i64.
inline constexpr llvm::StringLiteral classesAttrName = "dfg.classes";
/// On a result: the loss, the graph's first result, is the mean over as many as this one counts; a unit attribute. The
/// count must not depend on parameters.
inline constexpr llvm::StringLiteral countsAttrName = "dfg.counts";
/// Of a graph that works on versions of parameters (passes/train/Versions.h), the parameter's name, a string: on an
/// argument that is a version of it, or what a replica has to add to it; on a result that is the next version, or what
/// a replica has to add.
inline constexpr llvm::StringLiteral versionAttrName = "dfg.version";

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_PORTATTRIBUTES_H
