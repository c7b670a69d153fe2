// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Looks at the team in a parallel loop of its own, in which each thread places itself.

#include "runtime/drivers/cpu/ComputeTeam.h"

#include "runtime/drivers/cpu/ShortTurns.h"

#include <atomic>
#include <omp.h>

namespace cleave::runtime {

namespace {
/// Longer than those of threads that only move bytes, which a device's compute thread waits for.
constexpr std::chrono::microseconds turn(200);
/// How often a team is looked at: the loop that does it costs as much as the smallest kernels.
constexpr std::chrono::milliseconds period(100);
/// After the first look the next one is earlier: until the leader keeps to its place it may come to share that of
/// another, which makes steps half as fast.
constexpr std::chrono::milliseconds soon(5);
} // namespace

ComputeTeam::ComputeTeam(unsigned threads, CoreSet cores, CoreSet all)
    : cores(threads > 1 ? std::move(cores) : CoreSet()), all(std::move(all)) {
  omp_set_num_threads(static_cast<int>(threads));
  if (!this->cores.empty())
    takeShortTurns(turn);
}

unsigned ComputeTeam::placeNewcomers() {
  thread_local const ComputeTeam *placedBy = nullptr;
  std::atomic<unsigned> newcomers = 0;
#pragma omp parallel
  {
    auto member = static_cast<size_t>(omp_get_thread_num());
    if (member > 0 && member < cores.size() && placedBy != this) {
      stayOn({cores[member]});
      takeShortTurns(turn);
      placedBy = this;
      ++newcomers;
    }
  }
  return newcomers;
}

void ComputeTeam::settle() {
  if (cores.empty())
    return;
  auto now = std::chrono::steady_clock::now();
  if (now < next)
    return;
  next = now + (isFirst ? soon : period);
  unsigned newcomers = placeNewcomers();
  if (isFirst) {
    // To its place, from that of another, but free: threads that are started now would inherit a single core.
    stayOn({cores.front()});
    stayOn(all);
    isFirst = false;
  } else if (newcomers != 0) {
    if (leader == Leader::Placed)
      stayOn(all);
    leader = Leader::Free;
  } else if (leader == Leader::Unplaced) {
    stayOn({cores.front()});
    leader = Leader::Placed;
  }
}

} // namespace cleave::runtime
