// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the Trace Event Format that Perfetto and Chrome read.

#include "runtime/Trace.h"

#include "runtime/Json.h"
#include "runtime/TraceMemory.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace cleave::runtime {

Trace::Track &Trace::add(const Plan &plan, const Site &site, uint32_t queue, QueueKind kind) {
  this->plan = plan;
  Track &track = all.emplace_back();
  track.device = site.device;
  track.mesh = site.mesh;
  track.member = site.member;
  track.queue = queue;
  track.kind = kind;
  track.thread = threads[site.device]++;
  track.deviceName = plan->devices[site.device].name;
  track.queueName = queueKindName(kind);
  // A device in several meshes has several queues of a kind.
  if (plan->meshes[site.mesh].devices.size() > 1)
    track.queueName += " of " + plan->meshes[site.mesh].name;
  return track;
}

Trace::Counter &Trace::addCounter(uint32_t device, std::string name) {
  return counters.emplace_back(Counter{device, std::move(name), {}});
}

static void writeName(std::ostream &out, const char *what, uint32_t process, uint32_t thread, std::string_view name) {
  out << "{\"ph\":\"M\",\"name\":\"" << what << "\",\"pid\":" << process << ",\"tid\":" << thread
      << ",\"args\":{\"name\":" << JsonString{name} << "}}";
}

/// The instructions of a phase of an entry's program on a mesh, which the entry has.
static const std::vector<Instruction> &instructionsOn(const Entry &entry, uint32_t mesh, Phase phase) {
  return std::ranges::find(entry.programs, mesh, &Program::mesh)->instructions(phase);
}

std::vector<std::byte> Trace::pack(std::span<const Entry *const> entries, int64_t offset) const {
  std::vector<int64_t> numbers;
  for (const Track &track : all) {
    numbers.insert(numbers.end(), {track.mesh, track.member, track.queue, static_cast<int64_t>(track.kind),
                                   static_cast<int64_t>(track.events.size())});
    for (const Event &event : track.events) {
      const Instruction *first = instructionsOn(*entries[event.entry], track.mesh, event.phase).data();
      numbers.insert(numbers.end(), {event.entry, static_cast<int64_t>(event.phase), event.instruction - first,
                                     static_cast<int64_t>(event.step), event.begin + offset, event.end + offset});
    }
  }
  auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

void Trace::unpack(const Plan &plan, std::span<const Entry *const> entries, std::span<const std::byte> bytes) {
  auto next = [&] {
    int64_t number;
    std::memcpy(&number, bytes.data(), sizeof number);
    bytes = bytes.subspan(sizeof number);
    return number;
  };
  while (!bytes.empty()) {
    auto mesh = static_cast<uint32_t>(next()), member = static_cast<uint32_t>(next());
    auto queue = static_cast<uint32_t>(next());
    auto kind = static_cast<QueueKind>(next());
    Track &track = add(plan, {plan->meshes[mesh].devices[member], nullptr, 0, member, mesh}, queue, kind);
    for (int64_t events = next(); events != 0; --events) {
      Event &event = track.events.emplace_back();
      event.entry = static_cast<uint32_t>(next());
      event.phase = static_cast<Phase>(next());
      event.instruction = &instructionsOn(*entries[event.entry], mesh, event.phase)[static_cast<size_t>(next())];
      event.step = static_cast<uint64_t>(next());
      event.begin = next();
      event.end = next();
    }
  }
}

void Trace::write(std::ostream &out) const {
  std::vector<Counter> shown = memoryOf(*this);
  shown.insert(shown.end(), counters.begin(), counters.end());
  int64_t origin = INT64_MAX;
  for (const Track &track : all)
    for (const Event &event : track.events)
      origin = std::min(origin, event.begin);
  for (const Counter &counter : shown)
    if (!counter.values.empty())
      origin = std::min(origin, counter.values.front().first);
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
    writeName(out, "thread_name", track.device, track.thread, track.queueName);
    for (const Event &event : track.events) {
      next();
      out << "{\"ph\":\"X\",\"name\":" << JsonString{event.instruction->node} << ",\"cat\":\""
          << kindName(event.instruction->action) << "\",\"pid\":" << track.device << ",\"tid\":" << track.thread
          << ",\"ts\":" << microseconds(event.begin - origin) << ",\"dur\":" << microseconds(event.end - event.begin)
          << ",\"args\":{\"phase\":\"" << (event.phase == Phase::Prepare ? "prepare" : "body")
          << "\",\"step\":" << event.step;
      if (running.size() > 1)
        out << ",\"entry\":" << JsonString{running[event.entry]->name};
      if (const auto *call = std::get_if<Call>(&event.instruction->action))
        out << ",\"kernel\":" << JsonString{plan->kernels[call->kernel].name};
      out << "}}";
    }
  }
  for (const Counter &counter : shown)
    for (auto [time, value] : counter.values) {
      next();
      out << "{\"ph\":\"C\",\"name\":" << JsonString{counter.name} << ",\"pid\":" << counter.device
          << ",\"ts\":" << microseconds(time - origin) << ",\"args\":{\"bytes\":" << JsonNumber{value} << "}}";
    }
  out << "\n]}\n";
}

} // namespace cleave::runtime
