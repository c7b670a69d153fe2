// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Waiting for MPI without a spinning thread for each wait: of all threads of a process that wait, one polls for all of
// them, giving way to whoever can use its core, and the others sleep.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIWAITER_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIWAITER_H

#include "runtime/communicators/mpi/Mpi.h"

#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

namespace cleave::runtime {

/// One for a process.
class MpiWaiter {
public:
  /// Returns when all of these requests are over; each is waited for by one thread. `statuses` has as many elements, or
  /// is null.
  void wait(std::span<MPI_Request> requests, MPI_Status *statuses = MPI_STATUSES_IGNORE);

private:
  struct Waiting {
    std::span<MPI_Request> requests;
    MPI_Status *statuses;
    bool over = false;
    bool test();
  };
  /// Polls until `own` is over; `lock` is held before and after.
  void poll(const Waiting &own, std::unique_lock<std::mutex> &lock);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Waiting *> waiting;
  bool polls = false; ///< whether a thread is polling
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIWAITER_H
