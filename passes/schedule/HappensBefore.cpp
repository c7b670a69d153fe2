// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vector clocks over queues.

#include "passes/schedule/HappensBefore.h"

#include <algorithm>

namespace cleave::schedule {

static void merge(std::vector<unsigned> &clock, const std::vector<unsigned> &other) {
  for (size_t queue = 0; queue != clock.size(); ++queue)
    clock[queue] = std::max(clock[queue], other[queue]);
}

std::vector<TimelinePoint> HappensBefore::append(unsigned queue, const std::vector<TimelinePoint> &needed) {
  Clock clock = clocks[queue].empty() ? Clock(clocks.size()) : clocks[queue].back();
  // Only the latest point of each queue counts.
  std::vector<unsigned> latest(clocks.size());
  for (TimelinePoint point : needed)
    latest[point.queue] = std::max(latest[point.queue], point.value);
  std::vector<TimelinePoint> candidates, waits;
  for (unsigned other = 0; other != latest.size(); ++other)
    if (latest[other] > clock[other])
      candidates.push_back({other, latest[other]});
  auto implies = [&](TimelinePoint point, TimelinePoint earlier) {
    return after(point)[earlier.queue] >= earlier.value;
  };
  for (TimelinePoint candidate : candidates)
    if (std::none_of(candidates.begin(), candidates.end(), [&](TimelinePoint other) {
          // Two ends of one event imply each other: the first is kept.
          return other != candidate && implies(other, candidate) &&
                 (!implies(candidate, other) || other.queue < candidate.queue);
        }))
      waits.push_back(candidate);
  for (TimelinePoint point : waits)
    merge(clock, after(point));
  clock[queue] = static_cast<unsigned>(clocks[queue].size()) + 1;
  clocks[queue].push_back(std::move(clock));
  return waits;
}

void HappensBefore::meet(unsigned left, unsigned right) {
  merge(clocks[left].back(), clocks[right].back());
  clocks[right].back() = clocks[left].back();
}

} // namespace cleave::schedule
