// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All of it is collective.

#include "runtime/serve/PlanPart.h"

#include "runtime/JoinResults.h"

namespace cleave::runtime::serve {

Expected<PlanPart> PlanPart::create(const BatchedPlan &plan, ParameterSource &parameters, Processes &processes,
                                    const std::vector<std::string> &devicesOfRank, ExecutorOptions options) {
  std::string common;
  for (const std::string &devices : devicesOfRank)
    common += " --devices-of-rank " + devices;
  if (Error error = checkSame(processes, plan.getPlan(), common))
    return error;
  const PlanContents &contents = *plan.getPlan();
  auto divided = divideDevices(static_cast<uint32_t>(contents.devices.size()), processes.count(), devicesOfRank);
  if (!divided)
    return divided.error(); // the same everywhere
  PlanPart part;
  part.rankOfDevice = std::move(*divided);
  options.processes = &processes;
  options.rankOfDevice = part.rankOfDevice;
  options.agreesOnSteps = false;
  auto executor = plan.createExecutor(parameters, std::move(options));
  if (!executor)
    return executor.error();
  part.executor = std::move(*executor);
  std::vector<const Entry *> entries;
  for (const std::string &name : plan.getEntries())
    entries.push_back(*plan.getPlan().entry(name));
  part.memory = joinMemory(processes, plan.getPlan(), entries, part.rankOfDevice, part.executor->memory());
  return part;
}

} // namespace cleave::runtime::serve
