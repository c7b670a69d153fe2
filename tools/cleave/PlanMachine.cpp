// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the machine by name.

#include "tools/cleave/PlanMachine.h"

namespace cleave::tool {

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

Expected<Machine> machineOf(const runtime::Plan &plan, const std::string &name) {
  if (name.empty())
    return makeError(Status::Usage,
                     "a plan for GPUs that was made without a prediction expects --machine, as in "
                     "cuda:h100:",
                     plan->devices.size(), "; got none");
  auto machine = parseMachine(name);
  if (!machine)
    return fromLlvm(Status::Usage, machine.takeError());
  if (machine->devices.size() < plan->devices.size())
    return makeError(Status::Usage, "--machine expects at least the plan's ", plan->devices.size(), " devices, got ",
                     machine->devices.size(), " in \"", name, "\"");
  return std::move(*machine);
}

} // namespace cleave::tool
