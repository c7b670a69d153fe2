// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the Trace Event Format that Perfetto and Chrome read.

#include "runtime/Trace.h"

#include "runtime/Json.h"

#include <algorithm>
#include <set>

namespace cleave::runtime {

Trace::Track &Trace::add(const Plan &plan, uint32_t device, uint32_t queue, QueueKind kind) {
  this->plan = plan;
  Track &track = all.emplace_back();
  track.device = device;
  track.queue = queue;
  track.deviceName = plan->devices[device].name;
  track.queueName = queueKindName(kind);
  return track;
}

static void writeName(std::ostream &out, const char *what, uint32_t process, uint32_t thread, std::string_view name) {
  out << "{\"ph\":\"M\",\"name\":\"" << what << "\",\"pid\":" << process << ",\"tid\":" << thread
      << ",\"args\":{\"name\":" << JsonString{name} << "}}";
}

void Trace::write(std::ostream &out) const {
  int64_t origin = INT64_MAX;
  for (const Track &track : all)
    for (const Event &event : track.events)
      origin = std::min(origin, event.begin);
  const char *separator = "\n";
  auto next = [&] { out << std::exchange(separator, ",\n"); };
  auto microseconds = [](int64_t nanoseconds) { return JsonNumber{static_cast<double>(nanoseconds) / 1000}; };
  std::set<uint32_t> named;
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  for (const Track &track : all) {
    if (named.insert(track.device).second) {
      next();
      writeName(out, "process_name", track.device, 0, track.deviceName);
    }
    next();
    writeName(out, "thread_name", track.device, track.queue, track.queueName);
    for (const Event &event : track.events) {
      next();
      out << "{\"ph\":\"X\",\"name\":" << JsonString{event.instruction->node} << ",\"cat\":\""
          << actionName(event.instruction->action) << "\",\"pid\":" << track.device << ",\"tid\":" << track.queue
          << ",\"ts\":" << microseconds(event.begin - origin) << ",\"dur\":" << microseconds(event.end - event.begin)
          << ",\"args\":{\"phase\":\"" << (event.phase == Phase::Prepare ? "prepare" : "body")
          << "\",\"step\":" << event.step;
      if (const auto *call = std::get_if<Call>(&event.instruction->action))
        out << ",\"kernel\":" << JsonString{plan->kernels[call->kernel].name};
      out << "}}";
    }
  }
  out << "\n]}\n";
}

} // namespace cleave::runtime
