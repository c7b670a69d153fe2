// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the machine by name.

#include "compiler/PlanMachine.h"

#include "passes/cost/MachineFile.h"

namespace cleave {

Expected<Machine> readMachine(const std::string &text) {
  auto machine = parseMachine(text);
  if (machine)
    return std::move(*machine);
  return fromLlvm(namesMachineFile(text) ? Status::Failure : Status::Usage, machine.takeError());
}

std::string machineNameOf(const runtime::Plan &plan, const runtime::Entry &entry, const std::string &asked) {
  if (!asked.empty())
    return asked;
  if (entry.prediction && !entry.prediction->machine.empty())
    return entry.prediction->machine;
  const runtime::PlanDevice &first = plan->devices.front();
  std::string count = std::to_string(plan->devices.size());
  // Which GPUs these are no plan says.
  if (first.driver == "cuda")
    return "";
  return first.driver == "cpu" ? "host:" + count + "x" + std::to_string(first.cores) : "null:" + count;
}

static Expected<Machine> withDevices(Expected<Machine> machine, const runtime::Plan &plan, const std::string &name) {
  if (!machine)
    return machine.error();
  if (machine->devices.size() < plan->devices.size())
    return makeError(Status::Infeasible, "--machine expects at least the plan's ", plan->devices.size(),
                     " devices, got ", machine->devices.size(), " in \"", name, "\"");
  return std::move(*machine);
}

Expected<Machine> machineOf(const runtime::Plan &plan, const std::string &name) {
  if (name.empty())
    return makeError(Status::Usage,
                     "a plan for GPUs that was made without a prediction expects --machine, as in "
                     "cuda:h100:",
                     plan->devices.size(), "; got none");
  return withDevices(readMachine(name), plan, name);
}

Expected<Machine> machineOf(const runtime::Plan &plan, const runtime::Entry &entry, const std::string &asked) {
  std::string name = machineNameOf(plan, entry, asked);
  if (!asked.empty() || !entry.prediction || entry.prediction->machineFile.empty())
    return machineOf(plan, name);
  auto machine = parseMachineFile(entry.prediction->machineFile, "the plan's machine \"" + name + "\"");
  return machine ? withDevices(std::move(*machine), plan, name) : fromLlvm(Status::Failure, machine.takeError());
}

static std::optional<Machine> predictedMachineOf(const runtime::Prediction &prediction) {
  auto machine = prediction.machineFile.empty() ? parseMachine(prediction.machine)
                                                : parseMachineFile(prediction.machineFile, prediction.machine);
  if (machine)
    return std::move(*machine);
  // A machine that is not there any more said nothing that could be shown.
  llvm::consumeError(machine.takeError());
  return std::nullopt;
}

std::optional<Machine> predictedMachineOf(const runtime::PlanContents &plan, const runtime::Prediction &prediction) {
  std::optional<Machine> machine = predictedMachineOf(prediction);
  if (machine && machine->devices.size() < plan.devices.size())
    machine.reset();
  return machine;
}

StepCalibration calibrationOf(const runtime::Prediction &prediction) {
  std::optional<Machine> machine = predictedMachineOf(prediction);
  return machine ? machine->calibration : StepCalibration();
}

std::string machineFileOf(const Machine &machine) {
  auto known = parseMachine(machine.name);
  if (known && known->kinds == machine.kinds && known->hosts == machine.hosts && known->network == machine.network &&
      known->links == machine.links && known->executor == machine.executor &&
      known->calibration == machine.calibration && known->devices.size() == machine.devices.size())
    return "";
  if (!known)
    llvm::consumeError(known.takeError());
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeMachineFile(machine, stream);
  return text;
}

} // namespace cleave
