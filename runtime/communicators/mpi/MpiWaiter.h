// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Waiting for MPI without a spinning thread for each wait: of all threads of a process that wait, one polls for all of
// them, giving way to whoever can use its core, and the others sleep.

#ifndef CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIWAITER_H
#define CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIWAITER_H

#include "runtime/communicators/mpi/Mpi.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace cleave::runtime {

/// One for what waits alike.
class MpiWaiter {
public:
  /// `pause`: how long the thread that polls sleeps between two rounds, and longer when nothing happens for long; 0: it
  /// only gives way.
  /// `isHopeless`, unless empty, holds for all waits.
  explicit MpiWaiter(std::chrono::microseconds pause = {}, std::function<bool()> isHopeless = {})
      : pause(pause), isAllHopeless(std::move(isHopeless)) {}

  /// Returns when all of these requests are over; each is waited for by one thread. `statuses` has as many elements, or
  /// is null. False where one has failed, or is not over when `isHopeless` says that it never will be; then the memory
  /// that it names must live on.
  bool wait(std::span<MPI_Request> requests, MPI_Status *statuses = MPI_STATUSES_IGNORE,
            const std::function<bool()> &isHopeless = {});

private:
  struct Waiting {
    std::span<MPI_Request> requests;
    MPI_Status *statuses;
    const std::function<bool()> &isHopeless;
    bool over = false, failed = false;
  };
  bool test(Waiting &each) const;
  /// Polls until `own` is over; `lock` is held before and after.
  void poll(const Waiting &own, std::unique_lock<std::mutex> &lock);

  const std::chrono::microseconds pause;
  const std::function<bool()> isAllHopeless;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Waiting *> waiting;
  bool polls = false; ///< whether a thread is polling
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMMUNICATORS_MPI_MPIWAITER_H
