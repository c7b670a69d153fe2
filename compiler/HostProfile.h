// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// This host's profile: where it is kept, and how plans are measured for it and predicted with it.

#ifndef CLEAVE_COMPILER_HOSTPROFILE_H
#define CLEAVE_COMPILER_HOSTPROFILE_H

#include "compiler/Messages.h"

#include "passes/cost/ProfiledCost.h"

#include <functional>

namespace cleave {

/// What has been measured so far; a warning and nothing, if the file is no profile.
runtime::Profile readHostProfile(Messages &messages);
/// Status::Failure where there is no folder for it.
Error writeHostProfile(const runtime::Profile &profile);

/// Whether the plan's devices are cores of this host, all of one size: what can be measured here.
bool isHostPlan(const runtime::Plan &plan);

/// Measures what the profile lacks for an entry of the plan.
Error measureEntry(const runtime::Plan &plan, const runtime::Entry &entry, runtime::Profile &profile,
                   const std::function<void(size_t, size_t)> &progress = {});
/// The same for all of its entries.
Error measurePlan(const runtime::Plan &plan, runtime::Profile &profile,
                  const std::function<void(size_t, size_t)> &progress = {});

/// What the simulator asks for the plan on a machine; by the profile where the plan is of this host.
std::unique_ptr<PlanCost> costOf(const Machine &machine, const runtime::Plan &plan, const runtime::Entry &entry,
                                 const runtime::Profile &profile);

} // namespace cleave

#endif // CLEAVE_COMPILER_HOSTPROFILE_H
