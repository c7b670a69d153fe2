// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts threads and neighbours host by host.

#include "passes/cost/HostSharing.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

using namespace llvm;

namespace cleave {

HostSharing::HostSharing(const Machine &machine) : machine(machine) {
  for (const HostSpec &host : machine.hosts)
    coresOfHost.insert(coresOfHost.end(), host.count,
                       host.cores ? static_cast<double>(host.cores) : std::numeric_limits<double>::infinity());
  if (machine.hosts.empty())
    coresOfHost.push_back(std::numeric_limits<double>::infinity());
  for (auto [device, spec] : enumerate(machine.devices)) {
    auto kind = machine.kinds.find(spec.kind);
    bool isKnown = kind != machine.kinds.end();
    // GPUs compute without their host.
    double threads = spec.isGpu() ? 0 : std::min<double>(spec.cores, cores(device));
    shares.push_back({threads, isKnown ? std::max(1.0, kind->second.neighbourSlowdown) : 1});
  }
  std::vector<unsigned> all(machine.devices.size());
  std::iota(all.begin(), all.end(), 0u);
  anySlower = true;
  anySlower = slowdown(all, all) > 1;
}

double HostSharing::slowdown(ArrayRef<unsigned> devices, ArrayRef<unsigned> busy) const {
  if (!anySlower)
    return 1;
  struct Load {
    double threads = 0, neighbours = 0;
  };
  std::map<unsigned, Load> loads; // by host
  for (unsigned device : busy) {
    Load &load = loads[hostOf(device)];
    load.threads += shares[device].threads;
    load.neighbours += shares[device].neighbour > 1;
  }
  double slowest = 1;
  for (unsigned device : devices) {
    const Load &load = loads[hostOf(device)];
    double forCores = shares[device].threads > 0 ? std::max(1.0, load.threads / cores(device)) : 1;
    double forNeighbours = 1 + (shares[device].neighbour - 1) * std::max(0.0, load.neighbours - 1);
    slowest = std::max(slowest, forCores * forNeighbours);
  }
  return slowest;
}

std::vector<unsigned> HostSharing::devicesWithCores(ArrayRef<unsigned> taken) const {
  std::vector<double> left = coresOfHost;
  std::vector<bool> computes(machine.devices.size(), false);
  for (unsigned device : taken) {
    computes[device] = true;
    left[hostOf(device)] -= shares[device].threads;
  }
  std::vector<unsigned> devices;
  for (unsigned device = 0; device != machine.devices.size(); ++device) {
    if (!computes[device] && shares[device].threads <= std::max(0.0, left[hostOf(device)])) {
      computes[device] = true;
      left[hostOf(device)] -= shares[device].threads;
    }
    if (computes[device])
      devices.push_back(device);
  }
  return devices;
}

} // namespace cleave
