// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What machine files say of the parts of a device's rates that calls reach.

#ifndef CLEAVE_PASSES_COST_MACHINEFILEEFFICIENCY_H
#define CLEAVE_PASSES_COST_MACHINEFILEEFFICIENCY_H

#include "passes/cost/Machine.h"
#include "passes/cost/YamlValue.h"

namespace cleave {

/// Reads the key `efficiency` of a device kind, if it is there, into its curves and tiles. Errors have line and column,
/// and name `subject`, the kind.
llvm::Error readEfficiency(const YamlValue &kind, llvm::StringRef subject, DeviceKind &target);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MACHINEFILEEFFICIENCY_H
