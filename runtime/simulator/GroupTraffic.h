// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which links a reduction or a gathering crosses, by the algorithm that is fastest for all its groups together.

#ifndef CLEAVE_RUNTIME_SIMULATOR_GROUPTRAFFIC_H
#define CLEAVE_RUNTIME_SIMULATOR_GROUPTRAFFIC_H

#include "runtime/simulator/Traffic.h"

namespace cleave::runtime {

/// Adds up what crosses each link at the same time.
class LoadSum {
public:
  explicit LoadSum(const MachineModel &model) : model(model) {}
  /// `bytes` from a device to another, over `ways` such ways side by side; the latency.
  double add(uint32_t from, uint32_t to, double bytes, double ways = 1);
  /// All that has been added, which is forgotten. It takes no less than the longest of the ways alone.
  TrafficPhase take(double latency);

private:
  const MachineModel &model;
  TrafficPhase sum;
  Way way;
};

/// The phases of each group's communication; `groups` hold devices.
std::vector<std::vector<TrafficPhase>> groupPhases(const MachineModel &model, GroupWork::Kind kind, double bytes,
                                                   const std::vector<std::vector<uint32_t>> &groups);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SIMULATOR_GROUPTRAFFIC_H
