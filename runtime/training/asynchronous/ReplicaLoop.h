// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trains with replicas that do not wait for each other: a thread for each, which takes a version of the parameters,
// has its steps done, and gives what it has to add to them.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICALOOP_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICALOOP_H

#include "runtime/training/TrainLoop.h"
#include "runtime/training/asynchronous/LocalReplica.h"
#include "runtime/training/asynchronous/RemoteReplica.h"
#include "runtime/training/asynchronous/VersionKeeper.h"

#include <deque>

namespace cleave::runtime {

/// A step of the loop is one of each replica, or as many batches in any division between them.
class ReplicaLoop : public TrainLoop {
public:
  /// `context.executor` runs the keeper's entries, of which `apply` is the first. `messages` go to processes that have
  /// replicas, null: this one has all. All must outlive the loop, but for messages, which go first.
  ReplicaLoop(const TrainContext &context, const TrainingData &data, const TrainingData *evaluation,
              const TrainSchedule &schedule, TrainObserver &observer, const ReplicaOptions &options,
              Messages *messages);
  ~ReplicaLoop() override;

  /// Makes the devices of this process's replicas. `parameters` gives them first values; `restored` is the state of
  /// replicas in the checkpoint from which they go on, by the names of ownState.
  Error create(ParameterSource &parameters, std::span<const NamedTensor> restored, uint64_t seed);
  /// Prepares for the loss of other processes, which must be serving (ReplicaServer.h), where the options say so.
  Error prepareForLosses();
  /// Ends them, with the exit code of all. Whether one of them is gone. Call it once, last.
  bool end(int code);
  /// What replicas keep for themselves, as dropout's counters or with local steps the optimizer's state: "replica2/"
  /// and the parameter's name. No step may be in flight.
  Expected<std::vector<NamedTensor>> ownState() const;

  /// Of this process's devices.
  std::vector<DeviceMemory> memory() const;
  const Staleness &staleness() const { return keeper->staleness(); }
  uint64_t versions() const { return keeper->versions(); }
  uint64_t exchanged() const { return keeper->exchanged(); }

private:
  Error runSteps() override;
  /// Local steps since the last exchange are in the parameters of replicas alone.
  Error settle() override;
  uint64_t batchSize() const override;
  Error runRound(const BatchOrder &order, uint64_t first, uint64_t count);
  Error add(uint32_t number, ParameterSource &parameters, std::span<const NamedTensor> restored);
  void work(uint32_t number, const BatchOrder &order, uint64_t first);
  /// What came of steps of a replica. Those of replicas that step together are counted step by step.
  void note(uint32_t number, const std::vector<ReplicaOutcome> &outcomes);
  void count(const ReplicaOutcome &each);
  using TrainLoop::count;

  const ReplicaOptions &options;
  const Replicas replicas;
  const Entry &entry; ///< "train"
  Messages *const messages;
  std::unique_ptr<VersionKeeper> keeper;
  std::optional<RecordWriter> record;
  std::optional<SyncRecord> replay;
  std::vector<std::unique_ptr<Replica>> workers;
  std::vector<LocalReplica *> local; ///< those of them that are here
  std::vector<RemoteReplica *> remote;
  /// Of the step of the loop that is not whole yet.
  StepOutcome partial;
  uint64_t partialSteps = 0, partialSamples = 0, partialLabels = 0;
  std::vector<std::deque<ReplicaOutcome>> uncounted; ///< by replica: of steps that others have not done yet
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICALOOP_H
