// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the instructions of a plan cost on a machine: the roofline of its devices' kinds, and its links, as the
// simulator asks for them.

#ifndef CLEAVE_PASSES_COST_PLANCOST_H
#define CLEAVE_PASSES_COST_PLANCOST_H

#include "passes/cost/Topology.h"

#include "runtime/simulator/MachineModel.h"

namespace cleave {

/// Device i of a plan is device i of the machine. Where the machine does not say how fast a kind is, it is an ordinary
/// processor: 40 Gflop/s a core, 10 GB/s, 2 us a call.
class PlanCost : public runtime::MachineModel {
public:
  explicit PlanCost(const Machine &machine);

  uint32_t kindOf(uint32_t device) const override { return kindIndices[device]; }
  uint32_t hostOf(uint32_t device) const override { return machine.hosts.empty() ? 0 : machine.devices[device].host; }
  double seconds(uint32_t device, const runtime::LocalWork &work) const override;
  void findWay(uint32_t from, uint32_t to, double bytes, runtime::Way &way) const override;
  std::span<const double> bandwidths() const override { return linkBandwidths; }
  double overlapSlowdown(uint32_t device) const override;

protected:
  const DeviceKind &kind(uint32_t device) const { return kinds[kindIndices[device]]; }

private:
  const Machine machine;
  const Topology topology;
  std::vector<DeviceKind> kinds;
  std::vector<uint32_t> kindIndices;          ///< by device
  mutable std::vector<double> linkBandwidths; ///< of the links of all ways so far
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_PLANCOST_H
