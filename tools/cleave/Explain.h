// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The forms in which `cleave explain` shows a plan.

#ifndef CLEAVE_TOOLS_CLEAVE_EXPLAIN_H
#define CLEAVE_TOOLS_CLEAVE_EXPLAIN_H

#include "tools/cleave/PlanSummary.h"

#include "llvm/Support/raw_ostream.h"

namespace cleave::tool {

/// The whole plan: header, devices, a row an operator, transfers, the largest costs. Lines of at most 100 columns.
void explainAsText(llvm::raw_ostream &out, const PlanSummary &summary);

/// Everything about operator `index` of the entry.
void explainOperator(llvm::raw_ostream &out, const PlanSummary &summary, uint32_t index);

/// The graph coloured by device with a legend, in Graphviz's language. Nodes without a kernel of their own are dashed;
/// edges that cross between devices are bold and say how much crosses.
void explainAsDot(llvm::raw_ostream &out, const PlanSummary &summary);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_EXPLAIN_H
