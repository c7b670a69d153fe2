// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measured transfers between hosts as a table, and the links that explain them.
//
//   from,to,bytes,seconds
//   east,west,1000,0.0301
//   east,west,1000000000,8.72
//
// Without the first two columns all rows are of one link.

#ifndef CLEAVE_PASSES_COST_TRANSFERTABLE_H
#define CLEAVE_PASSES_COST_TRANSFERTABLE_H

#include "passes/cost/CurveFit.h"
#include "passes/cost/YamlValue.h"

namespace cleave {

/// Transfers from one zone to another, and latency + bytes / bandwidth as near to them as it comes.
struct MeasuredLink {
  std::string from, to; ///< Empty where the table does not say.
  std::vector<CallSample> samples;
  FilePosition position; ///< Of its first row.
  LinkSpec link;
  double worst = 0;   ///< The largest error of the link, as a part of what was measured,
  double worstAt = 0; ///< and the bytes of that transfer.
};

/// Sets link and errors: the least squares of relative errors, so that small transfers count as much as large ones; no
/// latency where it would be negative. Rounded to three digits. Expects transfers of at least two sizes that take
/// longer the larger they are.
llvm::Error fitTransfers(MeasuredLink &measured);

/// Reads a table, and fits a link for each pair in the order of the file. Errors name line and column.
llvm::Expected<std::vector<MeasuredLink>> parseTransferTable(llvm::StringRef text, llvm::StringRef file);

/// Sets what a table says: the network of a machine where it names no zones, else its links. Where both directions of a
/// pair were measured, each gets its own; else one link is for both. Expects zones of the machine.
llvm::Error setLinks(Machine &machine, llvm::ArrayRef<MeasuredLink> table);

/// The links of a table, as `setLinks` adds them.
std::vector<ZoneLinkSpec> zoneLinksOf(llvm::ArrayRef<MeasuredLink> table);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_TRANSFERTABLE_H
