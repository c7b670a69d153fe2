// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the instructions of a plan cost on this host: measured where the profile has it, else by the machine's kinds.

#ifndef CLEAVE_PASSES_COST_PROFILEDCOST_H
#define CLEAVE_PASSES_COST_PROFILEDCOST_H

#include "passes/cost/PlanCost.h"

#include "runtime/profile/Profile.h"

#include <unordered_map>

namespace cleave {

/// For plans of cpu devices of one size, whose kernels were measured with all of these at work; or of GPUs, each of
/// which has its own memory. `profile` must outlive it.
class ProfiledCost : public PlanCost {
public:
  ProfiledCost(const Machine &machine, const runtime::PlanContents &plan, const runtime::Entry &entry,
               const runtime::Profile &profile);

  /// Calls of the entry that were measured, of how many.
  size_t numMeasured() const { return times.size(); }
  size_t numCalls() const { return calls; }

  double seconds(uint32_t device, const runtime::LocalWork &work) const override;
  void findWay(uint32_t from, uint32_t to, double bytes, runtime::Way &way) const override;
  std::optional<double> groupSeconds(const runtime::GroupWork &work) const override;
  double contention(uint32_t device, const runtime::LocalWork &work) const override;
  double wakeSeconds(uint32_t device) const override;
  double returnSeconds() const override { return wake; }

private:
  const runtime::Profile &profile;
  const bool isOfGpus;
  const size_t devices; ///< that were measured together
  size_t calls = 0;
  double wake = 0;
  std::unordered_map<const runtime::Instruction *, const runtime::KernelTime *> times;
};

/// The file of this host's profile; empty without a cache folder.
std::string hostProfileFile();

} // namespace cleave

#endif // CLEAVE_PASSES_COST_PROFILEDCOST_H
