// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits that a placement file asks for.

#ifndef CLEAVE_PASSES_PLANNER_SPLITBYHAND_H
#define CLEAVE_PASSES_PLANNER_SPLITBYHAND_H

#include "passes/planner/GraphSplits.h"

namespace cleave {

/// Reports something about a place in the placement file.
using FileDiagnostic = llvm::function_ref<mlir::InFlightDiagnostic(const FilePosition &, mlir::DiagnosticSeverity)>;

/// Cuts the factors that the placement's `splits` name. Of a node's operators the main one is cut, or where that lacks
/// the factor, every one that has it; the others follow. Of a pattern's nodes those are cut that have the factor. Fails
/// where none has it, where an axis is not the mesh's or cuts two factors of an operator, and where the factor cannot
/// be divided. A pattern that fits no node is a warning.
llvm::LogicalResult splitByHand(GraphSplits &splits, const Placement &placement, FileDiagnostic diagnose);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_SPLITBYHAND_H
