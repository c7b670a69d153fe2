// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the instructions of a plan cost on a machine: the roofline of its devices' kinds, and its links, as the
// simulator asks for them.

#ifndef CLEAVE_PASSES_COST_PLANCOST_H
#define CLEAVE_PASSES_COST_PLANCOST_H

#include "passes/cost/Machine.h"

#include "runtime/simulator/MachineModel.h"

namespace cleave {

/// Device i of a plan is device i of the machine. Where the machine does not say how fast a kind is, it is an ordinary
/// processor: 40 Gflop/s a core, 10 GB/s, 2 us a call.
class PlanCost : public runtime::MachineModel {
public:
  explicit PlanCost(const Machine &machine);

  uint32_t kindOf(uint32_t device) const override { return kindIndices[device]; }
  uint32_t hostOf(uint32_t device) const override { return machine.devices[device].host; }
  double seconds(uint32_t device, const runtime::LocalWork &work) const override;
  std::span<const runtime::Link> links() const override { return allLinks; }
  void appendPath(uint32_t from, uint32_t to, std::vector<uint32_t> &links) const override;
  double overlapSlowdown(uint32_t device) const override;

protected:
  const DeviceKind &kind(uint32_t device) const { return kinds[kindIndices[device]]; }

private:
  void addLinks();

  const Machine machine;
  std::vector<DeviceKind> kinds;
  std::vector<uint32_t> kindIndices; ///< by device
  std::vector<runtime::Link> allLinks;
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_PLANCOST_H
