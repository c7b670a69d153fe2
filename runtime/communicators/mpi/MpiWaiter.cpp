// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first thread that has to wait polls. When its own requests are over it leaves the polling to one that still
// waits.

#include "runtime/communicators/mpi/MpiWaiter.h"

#include <algorithm>
#include <sched.h>
#include <thread>

namespace cleave::runtime {

/// Rounds of polling, about a microsecond together, before the core is offered to others after every round.
constexpr unsigned patience = 32;
/// Whoever sleeps between rounds sleeps such a part of the time that nothing has happened, so that a process that has
/// nothing to do for long takes little of its core, and at most so long.
constexpr int partOfSilence = 64;
constexpr std::chrono::microseconds longestPause{1000};

bool MpiWaiter::test(Waiting &each) const {
  int flag = 0;
  each.failed =
      MPI_Testall(static_cast<int>(each.requests.size()), each.requests.data(), &flag, each.statuses) != MPI_SUCCESS;
  if (!each.failed && flag == 0)
    each.failed = (each.isHopeless && each.isHopeless()) || (isAllHopeless && isAllHopeless());
  return each.failed || flag != 0;
}

bool MpiWaiter::wait(std::span<MPI_Request> requests, MPI_Status *statuses, const std::function<bool()> &isHopeless) {
  Waiting own{requests, statuses, isHopeless};
  if (requests.empty() || test(own))
    return !own.failed;
  std::unique_lock lock(mutex);
  waiting.push_back(&own);
  while (!own.over)
    if (polls)
      changed.wait(lock);
    else
      poll(own, lock);
  return !own.failed;
}

void MpiWaiter::poll(const Waiting &own, std::unique_lock<std::mutex> &lock) {
  using Clock = std::chrono::steady_clock;
  polls = true;
  Clock::time_point latest = Clock::now();
  for (unsigned idle = 0; !own.over;) {
    // Nobody leaves before `over` is set, which only happens below.
    std::vector<Waiting *> round = waiting, over;
    lock.unlock();
    for (Waiting *each : round)
      if (test(*each))
        over.push_back(each);
    idle = over.empty() ? idle + 1 : 0;
    if (idle == 0)
      latest = Clock::now();
    if (idle > patience && pause.count() == 0) {
      sched_yield();
    } else if (idle > patience) {
      auto silence = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - latest);
      std::this_thread::sleep_for(std::clamp(silence / partOfSilence, pause, std::max(pause, longestPause)));
    }
    lock.lock();
    for (Waiting *each : over) {
      each->over = true;
      std::erase(waiting, each);
    }
    if (!over.empty())
      changed.notify_all();
  }
  polls = false;
  changed.notify_all();
}

} // namespace cleave::runtime
