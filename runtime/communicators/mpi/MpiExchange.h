// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of exchanges that leaves the process: for each pair of sites in different processes one message a step,
// which holds the pieces of all tensors one after the other, or, empty, says that an error follows instead.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIEXCHANGE_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIEXCHANGE_H

#include "runtime/Communicator.h"
#include "runtime/communicators/mpi/MpiWaiter.h"

#include <unordered_map>

namespace cleave::runtime {

/// What the site `from` gives the site `to` of another process in one channel, and how it travels: from or to `process`
/// with `tag` on `comm`, which follow from `number`, the message's among those from the one process to the other.
struct MpiMessage {
  uint32_t from = 0, to = 0;
  std::vector<const Piece *> pieces;
  uint64_t bytes = 0, number = 0;
  int process = 0, tag = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  /// Where the bytes wait if they are not contiguous at this end.
  std::vector<std::byte> packed;

  bool contiguous() const { return pieces.size() == 1 && pieces.front()->box.dims.empty(); }
};

/// The messages of one site in one channel. Used by the site's thread alone.
class MpiExchange {
public:
  /// `rank` is this process's, which errors then name.
  MpiExchange(MpiWaiter &waiter, uint32_t rank) : waiter(waiter), rank(rank) {}
  /// A message that the site gets or gives. The reference is good until the next call.
  MpiMessage &addIncoming() { return incoming.emplace_back(); }
  MpiMessage &addOutgoing() { return outgoing.emplace_back(); }

  template <typename Visit> void forEachMessage(const Visit &visit) {
    for (MpiMessage &message : incoming)
      visit(message);
    for (MpiMessage &message : outgoing)
      visit(message);
  }

  /// Starts all messages.
  void start(const Participant &participant);
  /// Waits for them and puts what came into the target; the error of a giver, if one sent one.
  Error finish(const Participant &participant);

private:
  /// Messages larger than a count of MPI go in parts.
  template <typename Begin> void inParts(const MpiMessage &message, const Begin &begin);
  Error receiveError(const MpiMessage &message);

  MpiWaiter &waiter;
  const uint32_t rank;
  std::vector<MpiMessage> incoming, outgoing;
  std::vector<MPI_Request> requests;
  std::vector<std::byte> poison;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIEXCHANGE_H
