// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the instructions of a plan cost on a machine: the roofline of its devices' kinds, and its links, as the
// simulator asks for them.

#ifndef CLEAVE_PASSES_COST_PLANCOST_H
#define CLEAVE_PASSES_COST_PLANCOST_H

#include "passes/cost/HostSharing.h"
#include "passes/cost/OperatorCost.h"
#include "passes/cost/Topology.h"

#include "runtime/simulator/MachineModel.h"

namespace cleave {

/// Device i of a plan is device i of the machine. Where the machine does not say how fast a kind is, it is the default
/// one (DefaultMachine.h).
class PlanCost : public runtime::MachineModel {
public:
  explicit PlanCost(const Machine &machine);

  uint32_t kindOf(uint32_t device) const override { return kindIndices[device]; }
  uint32_t hostOf(uint32_t device) const override { return machine.hosts.empty() ? 0 : machine.devices[device].host; }
  uint32_t zoneOf(uint32_t device) const override { return machine.devices[device].zone; }
  double seconds(uint32_t device, const runtime::LocalWork &work) const override;
  double stepSeconds(uint32_t device) const override;
  void findWay(uint32_t from, uint32_t to, double bytes, runtime::Way &way) const override;
  std::span<const double> bandwidths() const override { return linkBandwidths; }
  double overlapSlowdown(uint32_t device) const override;
  double contention(uint32_t device, const runtime::LocalWork &work) const override;
  double coresOf(uint32_t host) const override { return hostCores[host]; }
  double threadsOf(uint32_t device, unsigned cores) const override;

protected:
  const DeviceKind &kind(uint32_t device) const { return kinds[kindIndices[device]]; }
  /// How many times as long something takes that keeps so many threads of a device's host busy.
  double coreSlowdown(uint32_t device, double threads) const { return std::max(1.0, threads / sharing.cores(device)); }

private:
  /// What kernels that compute in an element type cost on a device.
  const OperatorCost &costOf(uint32_t device, llvm::StringRef element) const;

  const Machine machine;
  const Topology topology;
  const HostSharing sharing;
  std::vector<double> hostCores; ///< by host
  std::vector<DeviceKind> kinds;
  std::vector<uint32_t> kindIndices;                                      ///< by device
  mutable std::map<std::pair<uint32_t, std::string>, OperatorCost> costs; ///< by kind and element type
  mutable std::vector<double> linkBandwidths;                             ///< of the links of all ways so far
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_PLANCOST_H
