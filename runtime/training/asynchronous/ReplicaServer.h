// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The replicas of a process that does not have the keeper: each does what its RemoteReplica in the keeper's process
// says.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICASERVER_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICASERVER_H

#include "runtime/training/asynchronous/LocalReplica.h"
#include "runtime/training/asynchronous/ReplicaMessages.h"

namespace cleave::runtime {

class ReplicaServer {
public:
  /// `data` and `messages` must outlive it.
  ReplicaServer(const Plan &plan, const TrainingData &data, Messages &messages)
      : plan(plan), data(data), messages(messages) {}

  /// Makes the devices of a replica (LocalReplica::create).
  Error add(uint32_t number, ParameterSource &parameters, std::span<const NamedTensor> restored, ReplicaTrial trial);
  /// Serves until the keeper's process ends the run; how. Status::Lost when that process is gone.
  Expected<ReplicaEnd> serve();
  std::vector<DeviceMemory> memory() const;

private:
  struct Served {
    uint32_t number;
    std::unique_ptr<LocalReplica> replica;
    ParameterTensors version;
  };
  Expected<ReplicaEnd> serve(Served &served);
  Error work(Served &served, const ReplicaRequest &request);
  /// Gives the keeper what the replica has to give, and gets the version. Status::Lost where there is none.
  Expected<Version> exchange(Served &served, const Gifts &gifts);
  Error sendState(Served &served);
  Error reply(const Served &served, const Error &error, const Messages::Parts &parts);

  const Plan plan;
  const TrainingData &data;
  Messages &messages;
  std::vector<Served> all;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICASERVER_H
