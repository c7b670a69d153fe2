// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Looks measurements up.

#include "passes/cost/ProfiledCost.h"

#include "passes/cost/HostCache.h"
#include "runtime/profile/KernelUse.h"

#include "llvm/ADT/StringRef.h"

using namespace llvm;

namespace cleave {

ProfiledCost::ProfiledCost(const Machine &machine, const runtime::PlanContents &plan, const runtime::Entry &entry,
                           const runtime::Profile &profile)
    : PlanCost(machine), profile(profile),
      isOfGpus(llvm::any_of(machine.kinds, [](const auto &each) { return each.second.isGpu(); })),
      devices(isOfGpus ? 1 : plan.devices.size()) {
  unsigned cores = plan.devices.empty() || isOfGpus ? 1 : plan.devices.front().cores;
  wake = profile.number("wake:" + runtime::divisionName(devices, cores)).value_or(0);
  for (const runtime::Program &program : entry.programs)
    for (const runtime::KernelUse &use :
         isOfGpus ? runtime::kernelUsesOnGpu(program) : runtime::kernelUsesOf(program, cores)) {
      ++calls;
      if (const auto *time = profile.kernel(runtime::Profile::keyOf(use.signature(plan), devices, cores)))
        times[use.instruction] = time;
    }
}

double ProfiledCost::seconds(uint32_t device, const runtime::LocalWork &work) const {
  if (auto found = times.find(work.instruction); found != times.end())
    return found->second->alone;
  if (!work.kernel && !isOfGpus)
    if (auto seconds = profile.curve("copy", work.bytes))
      return *seconds;
  return PlanCost::seconds(device, work);
}

/// A taker copies with a thread of its own, so that transfers share no link but the host's cores.
void ProfiledCost::findWay(uint32_t from, uint32_t to, double bytes, runtime::Way &way) const {
  if (isOfGpus)
    return PlanCost::findWay(from, to, bytes, way);
  std::string send = "send:" + std::to_string(devices);
  auto seconds = profile.curve(from == to ? "copy" : send, bytes);
  if (!seconds)
    return PlanCost::findWay(from, to, bytes, way);
  way.latency = from == to ? 0 : std::min(*seconds, *profile.curve(send, 0));
  if (*seconds > way.latency)
    way.bandwidth = bytes / (*seconds - way.latency);
}

/// What was measured had as many threads as devices; if these are more than the host's cores, the simulator shares the
/// cores out by itself.
std::optional<double> ProfiledCost::groupSeconds(const runtime::GroupWork &work) const {
  static constexpr const char *names[] = {"all_reduce", "reduce_scatter", "all_gather"};
  size_t count = work.devices.size();
  if (isOfGpus)
    return PlanCost::groupSeconds(work);
  auto seconds =
      profile.curve(std::string(names[static_cast<size_t>(work.kind)]) + ":" + std::to_string(count), work.bytes);
  if (seconds)
    *seconds /= coreSlowdown(work.devices.front(), static_cast<double>(count));
  return seconds;
}

/// Of what all devices together were slower by, what sharing cores does not explain. A call that is shorter than a
/// thread's turn on a core was measured as if it had one, so that less may be left than none.
double ProfiledCost::contention(uint32_t device, const runtime::LocalWork &work) const {
  auto found = times.find(work.instruction);
  if (found == times.end() || devices < 2 || found->second->alone <= 0)
    return PlanCost::contention(device, work);
  double together = coreSlowdown(device, static_cast<double>(devices) * threadsOf(device, 1));
  double slower = found->second->busy / found->second->alone / together;
  return 1 + std::max(0.0, slower - 1) / static_cast<double>(devices - 1);
}

double ProfiledCost::wakeSeconds(uint32_t) const { return wake; }

std::string hostProfileFile() {
  std::string machine = hostCacheFile();
  StringRef name = machine;
  return name.consume_back(".yaml") ? (name + ".profile").str() : "";
}

} // namespace cleave
