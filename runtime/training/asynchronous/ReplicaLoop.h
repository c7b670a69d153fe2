// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trains with replicas that do not wait for each other: a thread for each, which takes a version of the parameters,
// does its steps, and gives what it has to add to them.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICALOOP_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICALOOP_H

#include "runtime/training/KeptParameters.h"
#include "runtime/training/TrainLoop.h"
#include "runtime/training/asynchronous/ReplicaOptions.h"
#include "runtime/training/asynchronous/VersionKeeper.h"

namespace cleave::runtime {

/// A step of the loop is one of each replica, or as many batches in any division between them.
class ReplicaLoop : public TrainLoop {
public:
  /// `context.executor` runs the keeper's entries, of which `apply` is the first. All must outlive the loop.
  ReplicaLoop(const TrainContext &context, const TrainingData &data, const TrainingData *evaluation,
              const TrainSchedule &schedule, TrainObserver &observer, const ReplicaOptions &options);
  ~ReplicaLoop() override;

  /// Makes the replicas' devices. `parameters` gives them first values; `restored` is the state of replicas in the
  /// checkpoint from which they go on, by the names of ownState.
  Error create(ParameterSource &parameters, std::span<const NamedTensor> restored, uint64_t seed);
  /// What replicas keep for themselves, as dropout's counters or with local steps the optimizer's state: "replica2/"
  /// and the parameter's name. No step may be in flight.
  Expected<std::vector<NamedTensor>> ownState() const;

  std::vector<DeviceMemory> memory() const;
  const Staleness &staleness() const { return keeper->staleness(); }
  uint64_t versions() const { return keeper->versions(); }
  uint64_t exchanged() const { return keeper->exchanged(); }

private:
  class Replica;

  Error runSteps() override;
  /// Local steps since the last exchange are in the parameters of replicas alone.
  Error settle() override;
  uint64_t batchSize() const override;
  Error runRound(const BatchOrder &order, uint64_t first, uint64_t count);
  void work(Replica &replica, const BatchOrder &order, uint64_t first);
  void note(const StepOutcome &outcome, uint64_t samples, uint64_t labels);

  const ReplicaOptions &options;
  const Replicas replicas;
  std::unique_ptr<VersionKeeper> keeper;
  std::optional<RecordWriter> record;
  std::optional<SyncRecord> replay;
  std::vector<std::unique_ptr<Replica>> workers;
  /// Of the step of the loop that is not whole yet.
  StepOutcome partial;
  uint64_t partialSteps = 0, partialSamples = 0, partialLabels = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICALOOP_H
