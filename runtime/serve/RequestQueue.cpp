// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A list for each priority, and ordered sets that say what is oldest and what is due.

#include "runtime/serve/RequestQueue.h"

#include <algorithm>

namespace cleave::runtime::serve {

void RequestQueue::push(const Request &request) {
  Level &level = levels[request.priority];
  where[request.id] = {request.priority, level.insert(level.end(), Waiting{request, 0})};
  arrivals.insert({request.arrival, request.id});
  if (request.deadline != never)
    deadlines.insert({request.deadline, request.id});
  samplesOfLevel[request.priority] += request.samples;
  numSamples += request.samples;
}

/// Forgets what waits of a request, but for its place in the list.
void RequestQueue::forget(const Waiting &waiting) {
  const Request &request = waiting.request;
  uint64_t left = request.samples - waiting.taken;
  numSamples -= left;
  samplesOfLevel[request.priority] -= left;
  arrivals.erase({request.arrival, request.id});
  deadlines.erase({request.deadline, request.id});
  where.erase(request.id);
}

bool RequestQueue::remove(RequestId id) {
  auto found = where.find(id);
  if (found == where.end())
    return false;
  auto [priority, at] = found->second;
  forget(*at);
  levels[priority].erase(at);
  return true;
}

std::vector<Slice> RequestQueue::take(uint64_t most) {
  std::vector<Slice> slices;
  for (auto &[priority, level] : levels)
    while (most != 0 && !level.empty()) {
      Waiting &next = level.front();
      uint64_t left = next.request.samples - next.taken, count = std::min(left, most);
      slices.push_back({next.request.id, next.taken, count});
      most -= count;
      if (count == left) {
        forget(next);
        level.pop_front();
        continue;
      }
      // What has begun is not dropped any more.
      deadlines.erase({next.request.deadline, next.request.id});
      next.taken += count;
      numSamples -= count;
      samplesOfLevel[priority] -= count;
    }
  return slices;
}

std::vector<Slice> RequestQueue::peek(uint64_t most) const {
  std::vector<Slice> slices;
  for (auto &[priority, level] : levels)
    for (const Waiting &next : level) {
      if (most == 0)
        return slices;
      uint64_t count = std::min(next.request.samples - next.taken, most);
      slices.push_back({next.request.id, next.taken, count});
      most -= count;
    }
  return slices;
}

std::vector<RequestId> RequestQueue::removeDue(Time time) {
  std::vector<RequestId> due;
  while (nextDeadline() < time) {
    due.push_back(deadlines.begin()->second);
    remove(due.back());
  }
  return due;
}

uint64_t RequestQueue::samplesBefore(uint32_t priority) const {
  uint64_t sum = 0;
  for (auto &[level, samples] : samplesOfLevel)
    if (level <= priority)
      sum += samples;
  return sum;
}

} // namespace cleave::runtime::serve
