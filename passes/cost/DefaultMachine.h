// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine that is assumed where nothing is said of one: passes/cost/defaults/default.yaml.

#ifndef CLEAVE_PASSES_COST_DEFAULTMACHINE_H
#define CLEAVE_PASSES_COST_DEFAULTMACHINE_H

#include "passes/cost/Machine.h"

#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// `devices` on one host, connected as the default machine's are, each of the default kind of its driver and cores.
/// Their kinds and hosts are ignored.
Machine defaultMachine(llvm::ArrayRef<DeviceSpec> devices);

/// The kind of a device of which a machine says nothing: the default GPU with the driver "cuda", else so many times the
/// default core.
DeviceKind defaultKind(llvm::StringRef driver, unsigned cores);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_DEFAULTMACHINE_H
