// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A site's steps follow each other; those of several sites of a device are added up.

#include "runtime/TraceMemory.h"

#include "runtime/BufferUse.h"

#include <algorithm>
#include <array>
#include <queue>

namespace cleave::runtime {
namespace {

struct Running {
  int64_t begin, end;
  uint32_t instruction;
  bool operator>(const Running &other) const { return end > other.end; }
};

/// The instructions of the body that each step of a site ran, of all its queues.
using Steps = std::map<uint64_t, std::vector<Running>>;

/// What a device has begun and ceased to use, at a time.
using Changes = std::vector<std::pair<int64_t, double>>;

void addStep(const BufferUse &use, std::vector<Running> instructions, Changes &changes) {
  BufferUse::Progress progress(use);
  std::priority_queue<Running, std::vector<Running>, std::greater<>> open;
  auto close = [&](int64_t until) {
    for (; !open.empty() && open.top().end <= until; open.pop())
      changes.emplace_back(open.top().end, -progress.end(open.top().instruction));
  };
  std::ranges::sort(instructions, {}, &Running::begin);
  for (const Running &one : instructions) {
    close(one.begin);
    changes.emplace_back(one.begin, progress.begin(one.instruction));
    open.push(one);
  }
  close(INT64_MAX);
}

} // namespace

std::vector<Trace::Counter> memoryOf(const Trace &trace) {
  // By device, mesh and member, and by entry.
  std::map<std::array<uint32_t, 3>, std::map<uint32_t, Steps>> sites;
  if (!trace.entries().empty())
    for (const Trace::Track &track : trace.tracks())
      for (const Trace::Event &event : track.events)
        if (event.phase == Phase::Body) {
          const Program &program =
              *std::ranges::find(trace.entries()[event.entry]->programs, track.mesh, &Program::mesh);
          sites[{track.device, track.mesh, track.member}][event.entry][event.step].push_back(
              {event.begin, event.end, static_cast<uint32_t>(event.instruction - program.body.data())});
        }
  std::map<uint32_t, std::pair<double, Changes>> devices; // what lasts, and the rest
  for (auto &[site, entries] : sites) {
    auto &[lasting, changes] = devices[site[0]];
    double most = 0;
    for (auto &[entry, steps] : entries) {
      BufferUse use(*std::ranges::find(trace.entries()[entry]->programs, site[1], &Program::mesh));
      most = std::max(most, use.lastingBytes());
      for (auto &[step, instructions] : steps)
        addStep(use, std::move(instructions), changes);
    }
    lasting += most;
  }
  std::vector<Trace::Counter> counters;
  for (auto &[device, memory] : devices) {
    auto &[bytes, changes] = memory;
    std::ranges::stable_sort(changes, {}, [](const auto &change) { return change.first; });
    Trace::Counter &counter = counters.emplace_back(Trace::Counter{device, "bytes in use", {}});
    for (auto [time, change] : changes)
      if (change != 0)
        counter.values.emplace_back(time, bytes += change);
  }
  return counters;
}

} // namespace cleave::runtime
