// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of single entries, put together by the simulator of replicas.

#include "tools/cleave/ReplicaTimes.h"

#include "passes/cost/HostSharing.h"
#include "passes/cost/Topology.h"
#include "runtime/simulator/Simulator.h"
#include "tools/cleave/Figures.h"
#include "tools/cleave/HostProfile.h"
#include "tools/cleave/PlanMachine.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave::tool {

Expected<Slowdowns> parseSlowdowns(const std::vector<std::string> &texts, const runtime::Replicas &replicas) {
  Slowdowns slowdowns;
  for (const std::string &text : texts) {
    auto [number, factor] = llvm::StringRef(text).split(':');
    unsigned replica = 0;
    double times = 0;
    if (!llvm::to_integer(number, replica, 10) || replica >= replicas.count || !llvm::to_float(factor, times) ||
        !(times >= 1 && times <= 1e6))
      return makeError(Status::Usage, "--slow-replica expects R:F for one of replicas 0 to ", replicas.count - 1,
                       " and a factor of 1 at least, got \"", text, "\"");
    slowdowns[replica] = times;
  }
  return slowdowns;
}

/// Seconds of a step of an entry that runs alone.
static Expected<double> secondsOf(const runtime::Plan &plan, const Machine &machine, const std::string &name) {
  auto entry = plan.entry(name);
  if (!entry)
    return entry.error();
  auto simulated = runtime::simulate(*plan, **entry, *costOf(machine, plan, **entry, readHostProfile()));
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
                                                  const Slowdowns &slowdowns, const runtime::Replicas *as) {
  const runtime::Replicas &replicas = *plan->replicas;
  HostSharing sharing(machine);
  auto describe = [&](uint32_t first) {
    runtime::SimulatedReplica replica;
    replica.host = machine.devices[first].host;
    for (uint32_t device = first; device != first + replicas.devices; ++device)
      replica.threads += sharing.threads(device);
    return replica;
  };
  std::vector<runtime::SimulatedReplica> each;
  Topology topology(machine);
  for (uint32_t number = 0; number != replicas.count; ++number) {
    runtime::SimulatedReplica &replica = each.emplace_back(describe(number * replicas.devices));
    runtime::Plan own = plan.ofReplica(number);
    auto step = secondsOf(own, machine, "train");
    if (!step)
      return step.error();
    replica.step = *step;
    replica.link = linkSeconds(plan, machine, topology, number);
    if (auto slow = slowdowns.find(number); slow != slowdowns.end())
      replica.slowdown = slow->second;
    if (replicas.localSteps == 0)
      continue;
    for (const char *name : {"fetch", "give"}) {
      auto seconds = secondsOf(own, machine, name);
      if (!seconds)
        return seconds.error();
      replica.exchange += *seconds;
    }
  }
  runtime::SimulatedReplica keeper = describe(0);
  auto made = secondsOf(plan, machine, "apply");
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

std::string replicasText(const runtime::Replicas &replicas) {
  std::string text = std::to_string(replicas.count) + " replicas";
  if (replicas.devices > 1)
    text += " of " + std::to_string(replicas.devices) + " devices";
  if (replicas.localSteps != 0)
    return text + ", which exchange parameters every " + countText(replicas.localSteps, "step");
  if (!replicas.bound)
    return text + ", which do not wait for each other";
  if (*replicas.bound == 0)
    return text + ", which step together";
  return text + ", none more than " + countText(*replicas.bound, "step") + " ahead of the slowest";
}

Expected<LocalStepsChoice> chooseLocalSteps(const runtime::Plan &plan, const Machine &machine) {
  // DiLoCo was shown to lose little with 500 steps.
  constexpr uint32_t most = 512;
  constexpr double worthwhile = 1.05;
  std::map<uint32_t, double> seconds;
  for (uint32_t steps = most; steps != 0; steps /= 2) {
    runtime::Replicas as = *plan->replicas;
    as.localSteps = steps;
    auto timed = timeReplicas(plan, machine, {}, &as);
    if (!timed)
      return timed.error();
    seconds[steps] = timed->stepSeconds;
  }
  for (auto [steps, each] : seconds)
    if (each <= worthwhile * seconds[most])
      return LocalStepsChoice{steps, each, seconds[1], seconds[most]};
  return LocalStepsChoice{most, seconds[most], seconds[1], seconds[most]};
}

/// How often each number occurs, or, of many, where they lie.
static std::string distributionText(const std::vector<double> &shares) {
  constexpr size_t few = 12;
  std::string text;
  if (shares.size() <= few) {
    for (auto [number, share] : llvm::enumerate(shares))
      if (share > 0)
        text += llvm::formatv("{0}{1} ({2:P0})", text.empty() ? "" : " ", number, share);
    return text;
  }
  double mean = 0, before = 0;
  size_t most = 0;
  for (auto [number, share] : llvm::enumerate(shares)) {
    mean += static_cast<double>(number) * share;
    most = before < 0.9 ? number : most;
    before += share;
  }
  return llvm::formatv("{0:f1} on average, {1} or fewer for nine of ten, {2} at most", mean, most, shares.size() - 1);
}

Error printReplicas(llvm::raw_ostream &out, const runtime::Plan &plan, const Machine &machine,
                    const Slowdowns &slowdowns) {
  auto own = timeReplicas(plan, machine, slowdowns);
  if (!own)
    return own.error();
  out << replicasText(*plan->replicas) << "\n"
      << llvm::formatv("predicted: {0:f3} ms a step of the run, as many batches as there are replicas\n",
                       own->stepSeconds * 1e3);
  if (!plan->replicas->areTogether()) {
    out << "steps ahead of the slowest at their beginning: " << distributionText(own->ahead) << "\n"
        << "versions that others make during a step: " << distributionText(own->between) << "\n";
    runtime::Replicas together = *plan->replicas;
    together.bound = 0;
    auto barrier = timeReplicas(plan, machine, slowdowns, &together);
    if (!barrier)
      return barrier.error();
    out << llvm::formatv("if they stepped together: {0:f3} ms\n", barrier->stepSeconds * 1e3);
  }
  out << "waiting for others or for the keeper of the parameters:";
  for (auto [number, share] : llvm::enumerate(own->waiting))
    out << llvm::formatv("{0} replica {1} {2:P0}", number ? "," : "", number, share);
  out << "\n";
  return Error::success();
}

Error explainReplicas(llvm::raw_ostream &out, const runtime::Plan &plan, const Machine &machine) {
  // A device that is shared with another program, say.
  constexpr double slower = 2;
  const Slowdowns straggler = {{plan->replicas->count - 1, slower}};
  out << "\nexpected of the replicas\n";
  if (Error error = printReplicas(out, plan, machine, {}))
    return error;
  auto even = timeReplicas(plan, machine, {}), uneven = timeReplicas(plan, machine, straggler);
  for (const auto *times : {&even, &uneven})
    if (!*times)
      return times->error();
  out << llvm::formatv("with one of them twice as slow: {0:f3} ms a step of the run (x {1:f2})",
                       uneven->stepSeconds * 1e3, uneven->stepSeconds / even->stepSeconds);
  if (!plan->replicas->areTogether())
    out << "; steps ahead: " << distributionText(uneven->ahead);
  out << "\n";
  return Error::success();
}

} // namespace cleave::tool
