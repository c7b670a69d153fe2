// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What devices take from each other while they compute at once: cores of their host, its memory and power. The one
// place that knows it, for the search and for the simulator.

#ifndef CLEAVE_PASSES_COST_HOSTSHARING_H
#define CLEAVE_PASSES_COST_HOSTSHARING_H

#include "passes/cost/Machine.h"

#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// Who shares what on the hosts of a machine, which must outlive it.
class HostSharing {
public:
  explicit HostSharing(const Machine &machine);

  /// Cores of the host that a device is part of; infinite where nothing says that they are shared.
  double cores(unsigned device) const { return coresOfHost[hostOf(device)]; }
  /// Cores that a device keeps busy while it computes, no more than its host has; none of a GPU.
  double threads(unsigned device) const { return shares[device].threads; }
  /// How many times as long a device computes while one more of its host does.
  double neighbourSlowdown(unsigned device) const { return shares[device].neighbour; }

  /// How many times as long the slowest of `devices` computes, while all of `busy` do, as while it does alone. Cores
  /// are shared in equal parts, one for each thread; neighbours are counted where they mind each other. `busy` has all
  /// of `devices`. 1 or more.
  double slowdown(llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<unsigned> busy) const;

  /// The devices that can compute at once with a core for each of their threads: those of `taken`, whatever they need,
  /// then others in the order of the machine as long as their host has cores left. Ascending.
  std::vector<unsigned> devicesWithCores(llvm::ArrayRef<unsigned> taken = {}) const;

private:
  struct Share {
    double threads = 0, neighbour = 1;
  };
  unsigned hostOf(unsigned device) const { return machine.hosts.empty() ? 0 : machine.devices[device].host; }

  const Machine &machine;
  std::vector<Share> shares;       ///< By device.
  std::vector<double> coresOfHost; ///< By number of the host.
  bool anySlower = false;          ///< Some devices slow others down.
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_HOSTSHARING_H
