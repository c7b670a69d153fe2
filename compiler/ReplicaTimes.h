// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What steps of a plan's replicas take on a machine, together.

#ifndef CLEAVE_COMPILER_REPLICATIMES_H
#define CLEAVE_COMPILER_REPLICATIMES_H

#include "compiler/Messages.h"

#include "passes/cost/Machine.h"
#include "runtime/profile/Profile.h"
#include "runtime/simulator/ReplicaSimulator.h"

#include <map>

namespace cleave {

/// Replicas that are taken to be so many times as slow as they are, by number.
using Slowdowns = std::map<uint32_t, double>;

/// Simulates the replicas of a verified plan that has some. `as`: with other rules of waiting than the plan's; null:
/// the plan's own. Status::Failure where the machine gives no finite time.
Expected<runtime::ReplicaSimulation> timeReplicas(const runtime::Plan &plan, const Machine &machine,
                                                  const runtime::Profile &profile, const Slowdowns &slowdowns,
                                                  const runtime::Replicas *as = nullptr);

/// Bytes that a replica takes and gives in an exchange, or, without local steps, in a step.
double exchangedBytes(const runtime::Plan &plan);

/// Local steps from one exchange to the next, and seconds of a step of the run: with them, with the fewest that are
/// tried, one where no steps hide an exchange, and with the most.
struct LocalStepsChoice {
  uint32_t steps = 1;
  double seconds = 0, secondsWithFewest = 0, secondsWithMost = 0;
  uint32_t fewest = 1;
};

/// The fewest local steps (a power of two up to 512, more than those that hide an exchange) with which exchanges take
/// no more than a twentieth of the time, of a verified plan with local steps. Status::Failure as timeReplicas.
Expected<LocalStepsChoice> chooseLocalSteps(const runtime::Plan &plan, const Machine &machine,
                                            const runtime::Profile &profile);

} // namespace cleave

#endif // CLEAVE_COMPILER_REPLICATIMES_H
