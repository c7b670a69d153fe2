// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A replica on devices of this process.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_LOCALREPLICA_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_LOCALREPLICA_H

#include "runtime/training/asynchronous/Replica.h"
#include "runtime/training/asynchronous/ReplicaOptions.h"

namespace cleave::runtime {

class LocalReplica : public Replica {
public:
  /// Replica `number` of the plan. `data` must outlive it.
  LocalReplica(const Plan &plan, uint32_t number, const TrainingData &data, ReplicaTrial trial)
      : plan(plan.ofReplica(number)), number(number), data(data), trial(trial) {}

  /// Makes the devices. `parameters` gives them first values; `restored` is the state of replicas in the checkpoint
  /// from which they go on, by the names of ownState. `shared`: whether the replicas are divided over processes, which
  /// something else places. Errors name the replica.
  Error create(ParameterSource &parameters, std::span<const NamedTensor> restored, bool shared);

  std::string text() const override { return replicaText(*plan, number); }
  Expected<std::vector<ReplicaOutcome>> run(const ReplicaWork &work) override;
  const Gifts &gifts() const override { return given; }
  Expected<std::vector<NamedTensor>> ownState() override;
  std::vector<DeviceMemory> memory() const { return executor->memory(); }

private:
  Error make(ParameterSource &parameters, std::span<const NamedTensor> restored, bool shared);
  Error findOutputs();
  Error restoreOwn(std::span<const NamedTensor> restored);
  Error setCounters();
  Error runEntry(uint32_t entry, const ParameterTensors *version);
  Expected<StepOutcome> step(std::span<const uint64_t> samples, const ParameterTensors *version);
  /// Does steps of the work from the first that is not done to `end`.
  Error runSteps(const ReplicaWork &work, uint64_t end, std::vector<ReplicaOutcome> &done);

  const Plan plan;
  const uint32_t number;
  const TrainingData &data;
  const ReplicaTrial trial;
  std::optional<ValueSource> values;
  std::vector<HostTensor> counters;
  std::unique_ptr<Executor> executor;
  Batch batch;
  std::vector<std::vector<HostTensor>> outputs; ///< by entry
  Gifts given;                                  ///< those of the outputs that are
  Version held;                                 ///< that the last exchange brought; null once it is merged
  /// Positions of outputs of "train".
  uint32_t loss = 0;
  std::optional<uint32_t> correct, counted;
  uint64_t steps = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_LOCALREPLICA_H
