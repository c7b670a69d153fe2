// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves bytes between devices.

#ifndef CLEAVE_RUNTIME_COMMUNICATOR_H
#define CLEAVE_RUNTIME_COMMUNICATOR_H

#include "runtime/Error.h"
#include "runtime/Plan.h"

namespace cleave::runtime {

/// One use of a channel: in step `step` of `phase`.
struct Transfer {
  Phase phase = Phase::Body;
  uint32_t channel = 0;
  uint64_t step = 0;
};

/// Rendezvous transfers. Each end calls from a thread of its own and returns when the bytes have moved. Steps use a
/// channel one after the other, in order.
class Communicator {
public:
  virtual ~Communicator() = default;
  /// Gives `bytes` to the receiver; if `poison` is an error, gives it that instead.
  virtual Error send(const Transfer &transfer, std::span<const std::byte> bytes, const Error &poison) = 0;
  /// Fills `bytes` from the sender, as many as it sends. The sender's error, if that is what it sent. With `poison`,
  /// takes what is sent without filling `bytes` and returns `poison`.
  virtual Error receive(const Transfer &transfer, std::span<std::byte> bytes, const Error &poison) = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATOR_H
