// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of single entries, put together by the simulator of replicas.

#include "compiler/ReplicaTimes.h"

#include "compiler/HostProfile.h"
#include "compiler/PlanMachine.h"
#include "passes/cost/HostSharing.h"
#include "passes/cost/Topology.h"
#include "passes/train/Versions.h"
#include "runtime/simulator/Simulator.h"

#include "llvm/ADT/Sequence.h"

namespace cleave {

/// Seconds of a step of an entry that runs alone.
static Expected<double> secondsOf(const runtime::Plan &plan, const Machine &machine, const runtime::Profile &profile,
                                  const std::string &name) {
  auto entry = plan.entry(name);
  if (!entry)
    return entry.error();
  auto simulated = runtime::simulate(*plan, **entry, *costOf(machine, plan, **entry, profile));
  if (!simulated)
    return simulated.error();
  return simulated->stepSeconds();
}

/// Bytes of the versions and of the gifts among an entry's ports.
static double versionBytes(const runtime::Plan &plan, const std::string &name) {
  auto entry = plan.entry(name);
  if (!entry)
    return 0;
  double bytes = 0;
  for (const auto *ports : {&(*entry)->inputs, &(*entry)->outputs})
    for (const runtime::Port &port : *ports)
      if (port.parameter)
        bytes += static_cast<double>(port.type.elementCount().value_or(0) * elementBytes(port.type.element));
  return bytes;
}

double exchangedBytes(const runtime::Plan &plan) {
  if (plan->replicas->localSteps == 0)
    return versionBytes(plan, "train");
  return versionBytes(plan, "fetch") + versionBytes(plan, "give");
}

/// Seconds that a replica's version and what it gives are on the links between its host and the keeper's. On one host
/// they are in memory, and part of the steps. Replicas that step together all use the keeper's network at once.
static double linkSeconds(const runtime::Plan &plan, const Machine &machine, const Topology &topology,
                          uint32_t number) {
  const runtime::Replicas &replicas = *plan->replicas;
  auto isElsewhere = [&](uint32_t replica) {
    return machine.devices[replica * replicas.devices].host != machine.devices[0].host;
  };
  if (!isElsewhere(number))
    return 0;
  unsigned sharers = 0;
  for (uint32_t other = 0; other != replicas.count; ++other)
    sharers += isElsewhere(other);
  LinkSpec link = topology.way(number * replicas.devices, 0).link;
  return 2 * link.latency + (replicas.areTogether() ? sharers : 1) * exchangedBytes(plan) / link.bandwidth;
}

Expected<runtime::ReplicaSimulation> timeReplicas(const runtime::Plan &plan, const Machine &machine,
                                                  const runtime::Profile &profile, const Slowdowns &slowdowns,
                                                  const runtime::Replicas *as) {
  const runtime::Replicas &replicas = *plan->replicas;
  HostSharing sharing(machine);
  auto describe = [&](auto devices) {
    runtime::SimulatedReplica replica;
    replica.host = machine.devices[*devices.begin()].host;
    for (uint32_t device : devices)
      replica.threads += sharing.threads(device);
    return replica;
  };
  std::vector<runtime::SimulatedReplica> each;
  Topology topology(machine);
  for (uint32_t number = 0; number != replicas.count; ++number) {
    uint32_t first = number * replicas.devices;
    runtime::SimulatedReplica &replica = each.emplace_back(describe(llvm::seq(first, first + replicas.devices)));
    runtime::Plan own = plan.ofReplica(number);
    auto step = secondsOf(own, machine, profile, "train");
    if (!step)
      return step.error();
    replica.step = *step;
    replica.link = linkSeconds(plan, machine, topology, number);
    if (auto slow = slowdowns.find(number); slow != slowdowns.end())
      replica.slowdown = slow->second;
    if (replicas.localSteps == 0)
      continue;
    for (const char *name : {"fetch", "give"}) {
      auto seconds = secondsOf(own, machine, profile, name);
      if (!seconds)
        return seconds.error();
      replica.exchange += *seconds;
    }
  }
  runtime::SimulatedReplica keeper = describe(runtime::keeperDevices(*plan));
  auto made = secondsOf(plan, machine, profile, "apply");
  if (!made)
    return made.error();
  keeper.step = *made;
  std::vector<double> cores;
  for (const DeviceSpec &device : machine.devices) {
    cores.resize(std::max<size_t>(cores.size(), device.host + 1), 0);
    cores[device.host] = sharing.cores(static_cast<unsigned>(&device - machine.devices.data()));
  }
  return runtime::simulateReplicas(as ? *as : replicas, each, keeper, cores);
}

Expected<LocalStepsChoice> chooseLocalSteps(const runtime::Plan &plan, const Machine &machine,
                                            const runtime::Profile &profile) {
  constexpr auto most = static_cast<uint32_t>(mostChosenLocalSteps);
  constexpr double worthwhile = 1.05;
  std::map<uint32_t, double> seconds;
  for (uint32_t steps = most; steps > plan->replicas->overlap; steps /= 2) {
    runtime::Replicas as = *plan->replicas;
    as.localSteps = steps;
    auto timed = timeReplicas(plan, machine, profile, {}, &as);
    if (!timed)
      return timed.error();
    seconds[steps] = timed->stepSeconds;
  }
  for (auto [steps, each] : seconds)
    if (each <= worthwhile * seconds[most])
      return LocalStepsChoice{steps, each, seconds.begin()->second, seconds[most], seconds.begin()->first};
  return LocalStepsChoice{most, seconds[most], seconds.begin()->second, seconds[most], seconds.begin()->first};
}

} // namespace cleave
