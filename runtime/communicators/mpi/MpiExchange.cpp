// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Receives are posted first, then sends in synchronous mode: one is over when its receiver is there, as rendezvous
// demands, so that no giver runs ahead of its takers.

#include "runtime/communicators/mpi/MpiExchange.h"

#include "runtime/Processes.h"
#include "runtime/watch/Logbook.h"

#include <algorithm>

namespace cleave::runtime {

constexpr uint64_t largestTransfer = uint64_t(1) << 30;

template <typename Begin> void MpiExchange::inParts(const MpiMessage &message, const Begin &begin) {
  for (uint64_t offset = 0; offset < message.bytes; offset += largestTransfer)
    begin(offset, static_cast<int>(std::min(largestTransfer, message.bytes - offset)), requests.emplace_back());
}

void MpiExchange::start(const Participant &participant) {
  requests.clear();
  for (MpiMessage &message : incoming) {
    if (!message.contiguous())
      message.packed.resize(message.bytes);
    const Piece &first = *message.pieces.front();
    std::byte *target = message.contiguous() ? participant.targetOf(first.operand).data() + first.box.targetOffset
                                             : message.packed.data();
    inParts(message, [&](uint64_t offset, int bytes, MPI_Request &request) {
      MPI_Irecv(target + offset, bytes, MPI_BYTE, message.process, message.tag, message.comm, &request);
    });
  }
  if (participant.poison)
    poison = packError(atRank(participant.poison, rank));
  for (MpiMessage &message : outgoing) {
    const std::byte *source = nullptr;
    const Piece &first = *message.pieces.front();
    if (participant.poison) {
      source = poison.data();
    } else if (message.contiguous()) {
      source = participant.sourceOf(first.operand).data() + first.box.sourceOffset;
    } else {
      message.packed.resize(message.bytes);
      uint64_t offset = 0;
      for (const Piece *piece : message.pieces) {
        packBox(piece->box, participant.sourceOf(piece->operand).data(), message.packed.data() + offset);
        offset += piece->box.bytes();
      }
      source = message.packed.data();
    }
    inParts(message, [&](uint64_t offset, int bytes, MPI_Request &request) {
      MPI_Issend(participant.poison ? source : source + offset, participant.poison ? 0 : bytes, MPI_BYTE,
                 message.process, message.tag, message.comm, &request);
    });
    if (participant.poison)
      MPI_Issend(source, static_cast<int>(poison.size()), MPI_BYTE, message.process, message.tag, message.comm,
                 &requests.emplace_back());
  }
}

/// Errors follow their empty messages; the same sender, tag and communicator keep them in order.
Error MpiExchange::receiveError(const MpiMessage &message) {
  MPI_Message handle;
  MPI_Status status;
  int bytes = 0;
  MPI_Mprobe(message.process, message.tag, message.comm, &handle, &status);
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::vector<std::byte> packed(static_cast<size_t>(bytes));
  MPI_Mrecv(packed.data(), bytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
  return unpackError(packed);
}

Error MpiExchange::finish(const Participant &participant) {
  // The receives end first: a giver that failed may be waiting for its error to be fetched.
  std::vector<MPI_Status> statuses(requests.size());
  Error error;
  size_t begin = 0;
  for (MpiMessage &message : incoming) {
    size_t parts = (message.bytes + largestTransfer - 1) / largestTransfer;
    if (!waiter.wait(std::span(requests).subspan(begin, parts), statuses.data() + begin))
      return Logbook::own()->firstLoss();
    int got = 0;
    MPI_Get_count(&statuses[begin], MPI_BYTE, &got);
    begin += parts;
    if (got == 0) {
      Error sent = receiveError(message);
      error = error ? error : sent;
    } else if (!error && !participant.poison && !message.contiguous()) {
      uint64_t offset = 0;
      for (const Piece *piece : message.pieces) {
        unpackBox(piece->box, message.packed.data() + offset, participant.targetOf(piece->operand).data());
        offset += piece->box.bytes();
      }
    }
  }
  if (!waiter.wait(std::span(requests).subspan(begin)))
    return Logbook::own()->firstLoss();
  return error;
}

} // namespace cleave::runtime
