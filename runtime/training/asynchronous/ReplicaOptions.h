// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a command line says of replicas.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICAOPTIONS_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICAOPTIONS_H

#include "runtime/training/TrainCommand.h"

#include <map>

namespace cleave::runtime {

/// What is tried on a replica.
struct ReplicaTrial {
  double slowdown = 1;           ///< the factor by which its steps take longer
  std::optional<uint64_t> fails; ///< in this one of its steps, counted from 1
};

struct ReplicaOptions {
  /// When a replica fails, the others go on without it, where they need not step together.
  bool goOn = false;
  std::map<uint32_t, ReplicaTrial> trials;
  std::string recordFile, replayFile; ///< empty: none
  /// Of several processes: which of them has each replica, and each device. Empty: there is one.
  std::vector<uint32_t> ranks, rankOfDevice;

  uint32_t rankOf(uint32_t replica) const { return ranks.empty() ? 0 : ranks[replica]; }
  ReplicaTrial trialOf(uint32_t replica) const {
    auto found = trials.find(replica);
    return found == trials.end() ? ReplicaTrial() : found->second;
  }

  /// Those that the command has for a plan: the defaults for one without replicas. Status::Usage for an option that
  /// makes no sense with it, Status::Unsupported for what replicas cannot do.
  static Expected<ReplicaOptions> read(const TrainOptions &options, const PlanContents &plan);

private:
  /// Divides replicas over processes, whole ones. Status::Usage, Status::Unsupported.
  Error divide(const TrainOptions &options, const PlanContents &plan);
  /// Adds what "R:slow=F" or "R:fail=STEP" says. Status::Usage.
  Error addTrial(const std::string &text, uint32_t replicas);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICAOPTIONS_H
