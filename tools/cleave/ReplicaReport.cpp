// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simulated replicas in lines of text.

#include "tools/cleave/ReplicaReport.h"

#include "compiler/Figures.h"
#include "compiler/HostProfile.h"
#include "tools/cleave/Diagnostics.h"

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
                       " and a factor F from 1 to 1000000, got \"", text, "\"");
    slowdowns[replica] = times;
  }
  return slowdowns;
}

std::string replicasText(const runtime::Replicas &replicas) {
  std::string text = std::to_string(replicas.count) + " replicas";
  if (replicas.devices > 1)
    text += " of " + std::to_string(replicas.devices) + " devices";
  if (replicas.localSteps != 0)
    return text + ", which exchange parameters every " + countText(replicas.localSteps, "step") +
           (replicas.overlap == 0 ? "" : ", hidden behind " + countText(replicas.overlap, "step"));
  if (!replicas.bound)
    return text + ", which do not wait for each other";
  if (*replicas.bound == 0)
    return text + ", which step together";
  return text + ", none more than " + countText(*replicas.bound, "step") + " ahead of the slowest";
}

std::string keeperText(const runtime::PlanContents &plan) {
  std::map<uint32_t, uint64_t> bytes;
  for (const runtime::Entry &entry : plan.entries)
    for (const runtime::Program &program : entry.programs)
      for (uint32_t device : plan.meshes[program.mesh].devices)
        for (const runtime::State &state : program.state)
          if (entry.name == runtime::applyEntryName)
            bytes[device] += program.buffers[state.buffer].bytes;
  std::set<uint32_t> devices = runtime::keeperDevices(plan);
  if (*devices.rbegin() < plan.replicas->devices)
    return "on the devices of the first";
  std::string text;
  for (uint32_t device : devices)
    text += (text.empty() ? "in shards on " : ", ") + plan.devices[device].name + " (" +
            bytesText(static_cast<double>(bytes[device])) + ")";
  return text;
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
  auto own = timeReplicas(plan, machine, readHostProfile(console()), slowdowns);
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
    auto barrier = timeReplicas(plan, machine, readHostProfile(console()), slowdowns, &together);
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
  auto even = timeReplicas(plan, machine, readHostProfile(console()), {}),
       uneven = timeReplicas(plan, machine, readHostProfile(console()), straggler);
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
