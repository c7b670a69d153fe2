// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A line is a tag. MPI itself may wait for a process that is gone for ever; that it is, the guards know
// (Logbook::lost). Runs that go on without it have messages of their own (SocketMessages.h).

#include "runtime/communicators/mpi/MpiMessages.h"

#include "runtime/communicators/mpi/MpiWaiter.h"
#include "runtime/watch/Logbook.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace cleave::runtime {
namespace {

constexpr size_t largestMessage = size_t(1) << 30;
/// Answers take as long as steps: who waits for them sleeps.
constexpr std::chrono::microseconds betweenLooks{20};

class MpiMessages : public Messages {
public:
  explicit MpiMessages(MPI_Comm world) : waiter(betweenLooks) {
    MPI_Comm_dup(world, &comm);
    // A process that is gone is no reason to end this one.
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  ~MpiMessages() override {
    // Freeing a communicator may wait for all its processes.
    if (!isSomebodyLost)
      MPI_Comm_free(&comm);
  }

  Error send(uint32_t to, uint32_t line, const ConstParts &parts) override {
    return transfer(to, parts, [&](const std::byte *bytes, int count, MPI_Request &request) {
      return MPI_Isend(bytes, count, MPI_BYTE, static_cast<int>(to), static_cast<int>(line), comm, &request);
    });
  }

  Error receive(uint32_t from, uint32_t line, const Parts &parts) override {
    return transfer(from, parts, [&](std::byte *bytes, int count, MPI_Request &request) {
      return MPI_Irecv(bytes, count, MPI_BYTE, static_cast<int>(from), static_cast<int>(line), comm, &request);
    });
  }

private:
  /// What is known of a process that is gone.
  static Error lost(uint32_t rank) { return Logbook::own() ? Logbook::own()->lost(rank) : Error::success(); }

  template <typename Parts, typename Begin> Error transfer(uint32_t other, const Parts &parts, const Begin &begin) {
    std::vector<MPI_Request> requests;
    bool fails = false;
    for (auto part : parts)
      for (size_t offset = 0; offset < part.size() && !fails; offset += largestMessage)
        fails = begin(part.data() + offset, static_cast<int>(std::min(largestMessage, part.size() - offset)),
                      requests.emplace_back(MPI_REQUEST_NULL)) != MPI_SUCCESS;
    if (!fails && waiter.wait(requests, MPI_STATUSES_IGNORE, [other] { return static_cast<bool>(lost(other)); }))
      return Error::success();
    isSomebodyLost = true;
    Error error = lost(other);
    return error ? error : makeError(Status::Lost, "rank ", other, " is lost: a message to or from it has failed");
  }

  MpiWaiter waiter;
  MPI_Comm comm = MPI_COMM_NULL;
  std::atomic<bool> isSomebodyLost{false};
};

} // namespace

std::unique_ptr<Messages> createMpiMessages(MPI_Comm world) { return std::make_unique<MpiMessages>(world); }

} // namespace cleave::runtime
