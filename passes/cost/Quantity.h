// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers with units, as machine files have them: "16 GiB", "25 Gb/s", "15.7 TFLOP/s", "3 us".

#ifndef CLEAVE_PASSES_COST_QUANTITY_H
#define CLEAVE_PASSES_COST_QUANTITY_H

#include "passes/cost/YamlValue.h"

#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// `factor` times ten to the power of `exponent`, which is kept apart so that numbers are rounded once.
struct Unit {
  llvm::StringLiteral name;
  double factor;
  int exponent = 0;
  double size() const;
};

/// B, kB to TB, KiB to TiB.
extern const llvm::ArrayRef<Unit> sizeUnits;
/// B/s to TB/s, GiB/s, and Kb/s to Tb/s for bits.
extern const llvm::ArrayRef<Unit> bandwidthUnits;
/// FLOP/s to PFLOP/s.
extern const llvm::ArrayRef<Unit> speedUnits;
/// FLOP to PFLOP.
extern const llvm::ArrayRef<Unit> workUnits;
/// s, ms, us, ns.
extern const llvm::ArrayRef<Unit> timeUnits;
/// Shares and factors have none.
extern const llvm::ArrayRef<Unit> noUnit;

/// A finite number that is not negative, in one of `units`. `subject` begins the message.
llvm::Expected<double> parseQuantity(const YamlValue &value, llvm::ArrayRef<Unit> units, llvm::StringRef subject);

/// A short text that reads back as exactly this number, of 1 to 1000 units where that can be.
std::string printQuantity(double value, llvm::ArrayRef<Unit> units);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_QUANTITY_H
