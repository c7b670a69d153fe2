// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine that a plan's devices are, for commands that predict what the plan does.

#ifndef CLEAVE_COMPILER_PLANMACHINE_H
#define CLEAVE_COMPILER_PLANMACHINE_H

#include "compiler/Messages.h"

#include "passes/cost/Machine.h"
#include "runtime/Plan.h"

#include <optional>

namespace cleave {

/// The machine that a command line describes. Status::Failure where a machine file is at fault, else Status::Usage.
Expected<Machine> readMachine(const std::string &text);

/// The machine's name: `asked`, else that for which the plan was made, else one of devices like the plan's;
/// empty of GPUs, which nothing else tells apart.
std::string machineNameOf(const runtime::Plan &plan, const runtime::Entry &entry, const std::string &asked);

/// The machine of that name. Status::Infeasible when it has fewer devices than the plan.
Expected<Machine> machineOf(const runtime::Plan &plan, const std::string &name);

/// The machine that machineNameOf names: where nobody asks for one, that of a machine file is as it was when the plan
/// was made, wherever the file is now.
Expected<Machine> machineOf(const runtime::Plan &plan, const runtime::Entry &entry, const std::string &asked);

/// What measured steps had said of the machine for which a prediction was made; a step of 1 where they said nothing.
StepCalibration calibrationOf(const runtime::Prediction &prediction);

/// The machine for which a prediction was made, with at least as many devices as the plan; nothing where it is not
/// there any more.
std::optional<Machine> predictedMachineOf(const runtime::PlanContents &plan, const runtime::Prediction &prediction);

/// What Prediction::machineFile says of a machine: nothing where its name gives an equal one.
std::string machineFileOf(const Machine &machine);

} // namespace cleave

#endif // CLEAVE_COMPILER_PLANMACHINE_H
