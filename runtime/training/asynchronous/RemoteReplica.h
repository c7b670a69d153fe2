// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A replica on devices of another process, as the keeper's process sees it: work goes there, and what came of it comes
// back (ReplicaServer.h is the other end).

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REMOTEREPLICA_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REMOTEREPLICA_H

#include "runtime/training/asynchronous/ReplicaMessages.h"

namespace cleave::runtime {

/// When its process is gone, every call fails with Status::Lost, but for ownState().
class RemoteReplica : public Replica {
public:
  /// Replica `number` of the plan in process `rank`, on the line of its number. Destroy `messages` first.
  RemoteReplica(const Plan &plan, uint32_t number, uint32_t rank, Messages &messages)
      : plan(plan), number(number), rank(rank), messages(messages) {}

  /// Makes room for what it gives.
  Error create();
  /// From here on its own state is remembered, for checkpoints when it is gone.
  Error rememberState();

  std::string text() const override { return replicaText(*plan, number) + " on rank " + std::to_string(rank); }
  Expected<std::vector<ReplicaOutcome>> run(const ReplicaWork &work) override;
  const Gifts &gifts() const override { return given; }
  Expected<std::vector<NamedTensor>> ownState() override;
  /// Whether its process is gone.
  bool isGone() const { return isLost; }
  /// Its process has nothing more to do for it. Call it once, last.
  void end(const ReplicaEnd &how);

private:
  Error send(const Messages::Parts &parts);
  Error receive(const Messages::Parts &parts);
  /// The error that it replies with.
  Error receiveReply();
  /// Takes what it gives between its steps, and brings it the version.
  Error exchange(const ReplicaWork &work);
  Error lost(const Error &error);

  const Plan plan;
  const uint32_t number, rank;
  Messages &messages;
  bool remembers = false, isLost = false;
  // Messages that never end name this memory.
  ReplicaRequest request;
  ReplicaReply reply;
  VersionAnswer answer;
  Version version;
  std::vector<uint64_t> numbers;
  std::vector<std::byte> packed;
  std::vector<ReplicaOutcome> outcomes;
  Gifts given;
  std::vector<NamedTensor> asked; ///< its own state, on its way
  std::vector<NamedTensor> own;   ///< as it was last, of one that may be lost
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REMOTEREPLICA_H
