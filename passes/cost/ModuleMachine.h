// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine of a module: `dist.machine` holds what a machine file says, value by value as texts, so that what the
// reader and writer of machine files give is what the module has, to the last bit.

#ifndef CLEAVE_PASSES_COST_MODULEMACHINE_H
#define CLEAVE_PASSES_COST_MODULEMACHINE_H

#include "dialects/dist/Dist.h"
#include "passes/cost/Machine.h"

namespace cleave {

/// Writes the module's `dist.machine`, in the place of one that is there, and its `dist.devices`. Names and notes for
/// people aside, moduleMachine gives an equal machine. Expects a machine with hosts, as every text of `--machine`
/// gives.
void setMachine(mlir::ModuleOp module, const Machine &machine);

/// What a dist.machine says, with its devices as the module's `dist.devices` names them. Errors begin with what in the
/// description is wrong.
llvm::Expected<Machine> readMachine(dist::MachineOp machine);

/// The machine of a module: its `dist.machine`, which must be valid, else defaultMachine for the devices that
/// `dist.devices` and the meshes name.
Machine moduleMachine(mlir::ModuleOp module);

/// Has the dist dialect verify what `dist.machine` says.
void registerMachineReader(mlir::DialectRegistry &registry);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MODULEMACHINE_H
