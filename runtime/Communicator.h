// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves bytes between sites. What goes where is in the Channels from which a communicator is made; a communicator knows
// how: shared memory, messages, a library. It may serve only some of the sites, those of its process.

#ifndef CLEAVE_RUNTIME_COMMUNICATOR_H
#define CLEAVE_RUNTIME_COMMUNICATOR_H

#include "runtime/Channels.h"

#include <memory>

namespace cleave::runtime {

/// One use of a channel: in step `step` of `phase`.
struct Transfer {
  Phase phase = Phase::Body;
  uint32_t channel = 0;
  uint64_t step = 0;
};

/// A site's buffers for one of the tensors of a communication.
struct OperandBuffers {
  std::span<const std::byte> source;
  std::span<std::byte> target;
};

/// One site's end of a transfer.
struct Participant {
  uint32_t site = 0;
  /// The buffers that the instruction names: a send has no target, a receive no source.
  std::span<const std::byte> source;
  std::span<std::byte> target;
  /// The error that the site brings along, if any: it takes part, but gives the error instead of its bytes.
  Error poison;
  /// Those of further tensors, in the order in which the instruction names them.
  std::span<const OperandBuffers> more = {};

  std::span<const std::byte> sourceOf(uint32_t operand) const {
    return operand == 0 ? source : more[operand - 1].source;
  }
  std::span<std::byte> targetOf(uint32_t operand) const { return operand == 0 ? target : more[operand - 1].target; }
};

/// Rendezvous among sites. Each site of a channel calls from a thread of its own, once a step, and steps use a channel
/// one after the other, in order. A call returns when everything that the site gives has been taken and everything that
/// it gets is there. It returns the site's poison, or else an error of a site on which its target depends; targets then
/// hold anything. Nobody hangs because another site brings an error, and the next step starts anew.
class Communicator {
public:
  virtual ~Communicator() = default;
  /// For an ExchangeChannel.
  virtual Error exchange(const Transfer &transfer, const Participant &participant) = 0;
  /// For a ReduceChannel. All members of a group get the same bits.
  virtual Error reduce(const Transfer &transfer, const Participant &participant) = 0;
};

/// A communicator through memory, for all sites of `channels`, which must outlive it (communicators/local).
std::unique_ptr<Communicator> createLocalCommunicator(const Channels &channels);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATOR_H
