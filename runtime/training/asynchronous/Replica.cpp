// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What plans say of replicas.

#include "runtime/training/asynchronous/Replica.h"

#include "runtime/training/KeptParameters.h"

namespace cleave::runtime {

std::string ownStateName(uint32_t replica, const std::string &parameter) {
  return "replica" + std::to_string(replica) + "/" + parameter;
}

std::string replicaText(const PlanContents &plan, uint32_t replica) {
  uint32_t first = replica * plan.replicas->devices, count = plan.replicas->devices;
  std::string devices = plan.devices[first].name;
  if (count > 1)
    devices += " to " + plan.devices[first + count - 1].name;
  return "replica " + std::to_string(replica) + " (" + devices + ")";
}

std::set<uint32_t> ownParameters(const Plan &plan) {
  std::set<uint32_t> kept = keptParameters(**plan.entry("train"));
  if (plan->replicas->localSteps == 0)
    return kept;
  kept.merge(keptParameters(**plan.entry(giveEntryName)));
  for (uint32_t brought : keptParameters(**plan.entry(fetchEntryName)))
    kept.erase(brought);
  return kept;
}

} // namespace cleave::runtime
