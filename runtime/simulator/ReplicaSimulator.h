// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What steps of replicas take that do not wait for each other: who is held up by whom, and how old what they work with
// is. The rule is the runtime's own (ReplicaClocks).

#ifndef CLEAVE_RUNTIME_SIMULATOR_REPLICASIMULATOR_H
#define CLEAVE_RUNTIME_SIMULATOR_REPLICASIMULATOR_H

#include "runtime/Plan.h"

#include <vector>

namespace cleave::runtime {

/// A replica, or the keeper of the parameters. All seconds are those of an otherwise idle host.
struct SimulatedReplica {
  double step = 0;     ///< seconds of a step
  double exchange = 0; ///< with local steps, of fetching and giving
  double link = 0;     ///< of an exchange, on the links to the keeper, which keeps no cores busy; steps may hide it
  double slowdown = 1; ///< the factor by which steps take longer, without keeping cores busy (ReplicaTrial)
  uint32_t host = 0;
  double threads = 0; ///< that are busy on the host while it computes
};

struct ReplicaSimulation {
  double stepSeconds = 0; ///< of a step of the run: as many batches as there are replicas
  double versionsPerSecond = 0;
  /// Element i: the share of the steps that began i steps ahead of the slowest replica.
  std::vector<double> ahead;
  /// Element i: the share of the steps during which others made i versions.
  std::vector<double> between;
  /// By replica: the share of the time that it waits for others or the keeper.
  std::vector<double> waiting;
};

/// Simulates `steps` steps of each replica on average. `keeper.step` is what making a version takes; versions are made
/// one after the other. Busy threads of a host share its cores, of which `coresOfHost` says how many there are, in
/// equal parts.
ReplicaSimulation simulateReplicas(const Replicas &replicas, const std::vector<SimulatedReplica> &each,
                                   const SimulatedReplica &keeper, const std::vector<double> &coresOfHost,
                                   uint64_t steps = 200);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SIMULATOR_REPLICASIMULATOR_H
