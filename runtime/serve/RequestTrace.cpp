// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A line for the request, and one for each of its batches, which may run at the same time.

#include "runtime/serve/RequestTrace.h"

#include <sstream>

namespace cleave::runtime::serve {

std::string TracedRequest::text() const {
  std::vector<Trace::Line> lines = {{"request", {}}};
  auto add = [](Trace::Line &line, const char *name, int64_t begin, int64_t end,
                std::vector<std::pair<std::string, uint64_t>> numbers = {}) {
    if (begin != 0 && end >= begin)
      line.stretches.push_back({name, begin, end, std::move(numbers)});
  };
  add(lines.front(), "request", times.arrival, std::max(answered, sent), {{"samples", samples}});
  add(lines.front(), "receive", times.arrival, times.queued);
  add(lines.front(), "header", times.arrival, admitted);
  add(lines.front(), "queue", times.queued, times.start != 0 ? times.start : times.end);
  if (times.start != 0)
    add(lines.front(), "run", times.start, times.end);
  add(lines.front(), "write the answer", times.end, answered);
  add(lines.front(), "send", answered, sent);
  for (const RequestTrace::Batch &batch : trace->batches) {
    Trace::Line &line = lines.emplace_back(Trace::Line{"batch", {}});
    add(line, "batch", batch.begin, batch.end,
        {{"samples of the request", batch.ownSamples}, {"samples", batch.samples}, {"size", batch.size}});
    add(line, "gather", batch.begin, batch.gathered);
    add(line, "compute", batch.gathered, batch.computed);
    add(line, "scatter", batch.computed, batch.end);
  }
  std::ostringstream text;
  trace->devices.write(text, "request", lines);
  return text.str();
}

uint64_t TraceStore::add(TracedRequest request) {
  std::lock_guard lock(mutex);
  requests[++count] = std::move(request);
  if (requests.size() > most)
    requests.erase(requests.begin());
  return count;
}

void TraceStore::setSent(uint64_t number, int64_t time) {
  std::lock_guard lock(mutex);
  if (auto found = requests.find(number); found != requests.end())
    found->second.sent = time;
}

std::optional<TracedRequest> TraceStore::find(const std::string &number) const {
  std::lock_guard lock(mutex);
  for (auto &[own, request] : requests)
    if (std::to_string(own) == number)
      return request;
  return std::nullopt;
}

} // namespace cleave::runtime::serve
