// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What trains: it takes a version of the parameters, does its steps, and has something to give. Its devices are this
// process's (LocalReplica.h) or another's (RemoteReplica.h).

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICA_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICA_H

#include "runtime/training/BatchRunner.h"
#include "runtime/training/Checkpoint.h"
#include "runtime/training/asynchronous/LocalCycle.h"

#include <functional>
#include <map>
#include <memory>
#include <set>

namespace cleave::runtime {

/// Tensors by the parameter that they are a version of. A version that was given out does not change any more.
using ParameterTensors = std::map<uint32_t, HostTensor>;
using Version = std::shared_ptr<const ParameterTensors>;
/// What a replica gives by the parameter that it is for, in the order of its ports.
using Gifts = std::map<uint32_t, std::vector<HostTensor>>;

/// A stretch of a replica, with what it needs.
struct ReplicaWork : ReplicaStretch {
  /// Null: it goes on with what it has.
  const ParameterTensors *version = nullptr;
  std::vector<std::vector<uint64_t>> samples; ///< of each step
  /// Where it gives between the steps: takes what it gives, and returns the version that is made of it, to be merged by
  /// the stretch that says so. Called beside the steps after it, in another thread.
  std::function<Expected<Version>(const Gifts &)> exchange;
};

/// What came of a step.
struct ReplicaOutcome {
  StepOutcome outcome;
  uint64_t samples = 0, labels = 0; ///< as Batch has them
};

/// Used by one thread at a time.
class Replica {
public:
  virtual ~Replica() = default;
  /// "replica 2 (cpu2)", and where else than here it is.
  virtual std::string text() const = 0;
  /// Does the work; the tensors of its version are not read after it, but for those that an exchange brings.
  virtual Expected<std::vector<ReplicaOutcome>> run(const ReplicaWork &work) = 0;
  /// What it has to give; the tensors are filled by run().
  virtual const Gifts &gifts() const = 0;
  /// What it keeps for itself, as dropout's counters or with local steps the optimizer's state: "replica2/" and the
  /// parameter's name. Of one that is lost, the last that is known.
  virtual Expected<std::vector<NamedTensor>> ownState() = 0;
};

/// "replica2/fc1.weight".
std::string ownStateName(uint32_t replica, const std::string &parameter);
/// "replica 2 (cpu2)", "replica 1 (cpu2 to cpu3)".
std::string replicaText(const PlanContents &plan, uint32_t replica);
/// The parameters that steps and exchanges of a replica keep and no version brings.
std::set<uint32_t> ownParameters(const Plan &plan);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICA_H
