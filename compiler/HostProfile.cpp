// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The profile lies beside what `cleave probe` has measured of this host.

#include "compiler/HostProfile.h"

#include "passes/cost/Calibration.h"
#include "runtime/profile/HostTimer.h"
#include "runtime/profile/KernelTimer.h"

#include <algorithm>

namespace cleave {

runtime::Profile readHostProfile(Messages &messages) {
  std::string file = hostProfileFile();
  if (file.empty())
    return {};
  auto profile = runtime::Profile::read(file);
  if (profile)
    return std::move(*profile);
  messages.warning("the profile of this host cannot be used: " + profile.error().message());
  return {};
}

Error writeHostProfile(const runtime::Profile &profile) {
  std::string file = hostProfileFile();
  if (file.empty())
    return makeError(Status::Failure, "a folder for measurements is expected in CLEAVE_CACHE, XDG_CACHE_HOME or HOME, "
                                      "got none");
  return profile.write(file);
}

bool isHostPlan(const runtime::Plan &plan) {
  return !plan->devices.empty() && std::ranges::all_of(plan->devices, [&](const runtime::PlanDevice &device) {
    return device.driver == "cpu" && device.cores == plan->devices.front().cores;
  });
}

Error measureEntry(const runtime::Plan &plan, const runtime::Entry &entry, runtime::Profile &profile,
                   const std::function<void(size_t, size_t)> &progress) {
  if (!isHostPlan(plan))
    return makeError(Status::Usage, "measuring expects a plan for cpu devices of one size, got others");
  size_t devices = plan->devices.size();
  unsigned cores = plan->devices.front().cores;
  if (Error error = profileHost(devices, cores, profile))
    return error;
  return profileKernels(plan, entry, devices, cores, profile, progress);
}

Error measurePlan(const runtime::Plan &plan, runtime::Profile &profile,
                  const std::function<void(size_t, size_t)> &progress) {
  for (const runtime::Entry &entry : plan->entries)
    if (Error error = measureEntry(plan, entry, profile, progress))
      return error;
  return Error::success();
}

std::unique_ptr<PlanCost> costOf(const Machine &machine, const runtime::Plan &plan, const runtime::Entry &entry,
                                 const runtime::Profile &profile) {
  bool isHere = isHostPlan(plan) && !machine.devices.empty() && machine.devices.front().driver == "cpu";
  if (isHere)
    return std::make_unique<ProfiledCost>(withCalibration(machine), *plan, entry, profile);
  return std::make_unique<PlanCost>(withCalibration(machine));
}

} // namespace cleave
