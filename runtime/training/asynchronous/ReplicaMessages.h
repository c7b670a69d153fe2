// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the process of the keeper and one that has a replica say to each other: a request, and a reply to each but the
// last. Both know from the plan which tensors follow.
//
// Work with an exchange between its steps has two replies: one when the replica gives, with its gifts, which is
// answered by the version, and one after the steps.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICAMESSAGES_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICAMESSAGES_H

#include "runtime/Messages.h"
#include "runtime/training/asynchronous/Replica.h"

namespace cleave::runtime {

/// How the run has ended.
struct ReplicaEnd {
  int32_t code = 0;          ///< what its processes exit with
  uint32_t somebodyGone = 0; ///< whether (1) it has gone on without one of them
};

struct ReplicaRequest {
  enum class Kind : uint32_t {
    Work,     ///< numbers and, if any, a version's tensors follow; the last reply's are outcomes and, if any, gifts
    OwnState, ///< the reply's are its own state's tensors
    End       ///< without a reply
  };
  Kind kind = Kind::Work;
  uint32_t hasVersion = 0, merges = 0, gives = 0, exchanges = 0;
  ReplicaEnd end;
  /// Of the numbers: how many samples each step has, and which these are.
  uint64_t steps = 0, samples = 0;
  uint64_t exchangesAfter = 0; ///< steps, where it exchanges
};

struct ReplicaReply {
  uint64_t errorBytes = 0; ///< an error follows (packError) and nothing else; 0: none
  int64_t signal = 0;      ///< that has asked the process to end; 0: none
};

/// Before the version of an exchange.
struct VersionAnswer {
  uint64_t isMade = 0; ///< 0: the run has failed, and none follows
};

/// Adds a version's or gifts' tensors, in their order.
void addParts(Messages::Parts &parts, const ParameterTensors &tensors);
void addParts(Messages::Parts &parts, const Gifts &gifts);

/// Tensors for what a replica of the plan takes, and for what it gives. Status::Infeasible without memory.
Expected<ParameterTensors> allocateVersion(const Plan &plan);
Expected<Gifts> allocateGifts(const Plan &plan);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICAMESSAGES_H
