// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the Trace Event Format that Perfetto and Chrome read.

#include "runtime/Trace.h"

#include "runtime/Json.h"
#include "runtime/TraceMemory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

namespace cleave::runtime {

Trace::Track &Trace::add(const Plan &plan, const Site &site, uint32_t queue, QueueKind kind) {
  this->plan = plan;
  Track &track = all.emplace_back();
  track.owner = this;
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

bool Trace::Track::records(Phase phase, uint32_t entry, uint64_t step) const {
  if (!owner->ofSingleSteps)
    return true;
  std::lock_guard lock(owner->mutex);
  return phase == Phase::Body && owner->wanted.contains({entry, step});
}

void Trace::Track::record(const Event &event) {
  std::unique_lock lock(owner->mutex, std::defer_lock);
  if (owner->ofSingleSteps)
    lock.lock();
  events.push_back(event);
}

void Trace::want(StepOf step) {
  std::lock_guard lock(mutex);
  wanted.insert(step);
}

void Trace::copyStep(StepOf step, Trace &target) const {
  std::lock_guard lock(mutex);
  target.plan = plan;
  target.running = running;
  for (size_t i = 0; i != all.size(); ++i) {
    if (target.all.size() == i) {
      Track &made = target.all.emplace_back(all[i]);
      made.events.clear();
      made.owner = &target;
    }
    std::ranges::copy_if(all[i].events, std::back_inserter(target.all[i].events),
                         [&](const Event &event) { return step.has(event); });
  }
}

void Trace::forget(StepOf step) {
  std::lock_guard lock(mutex);
  wanted.erase(step);
  for (Track &track : all)
    std::erase_if(track.events, [&](const Event &event) { return step.has(event); });
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

void Trace::write(std::ostream &out, std::string_view about, std::span<const Line> lines) const {
  std::vector<Counter> shown = memoryOf(*this);
  shown.insert(shown.end(), counters.begin(), counters.end());
  int64_t origin = INT64_MAX;
  for (const Track &track : all)
    for (const Event &event : track.events)
      origin = std::min(origin, event.begin);
  for (const Counter &counter : shown)
    if (!counter.values.empty())
      origin = std::min(origin, counter.values.front().first);
  // A process that is no device.
  uint32_t process = 0;
  for (const Track &track : all)
    process = std::max(process, track.device + 1);
  for (const Line &line : lines)
    for (const Line::Stretch &stretch : line.stretches)
      origin = std::min(origin, stretch.begin);
  const char *separator = "\n";
  auto next = [&] { out << std::exchange(separator, ",\n"); };
  auto microseconds = [](int64_t nanoseconds) { return JsonNumber{static_cast<double>(nanoseconds) / 1000}; };
  std::set<uint32_t> named;
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  for (uint32_t thread = 0; thread != lines.size(); ++thread) {
    if (thread == 0) {
      next();
      writeName(out, "process_name", process, 0, about);
    }
    next();
    writeName(out, "thread_name", process, thread, lines[thread].name);
    for (const Line::Stretch &stretch : lines[thread].stretches) {
      next();
      out << "{\"ph\":\"X\",\"name\":" << JsonString{stretch.name} << ",\"pid\":" << process << ",\"tid\":" << thread
          << ",\"ts\":" << microseconds(stretch.begin - origin)
          << ",\"dur\":" << microseconds(stretch.end - stretch.begin) << ",\"args\":{";
      for (auto &[name, number] : stretch.numbers)
        out << (&name == &stretch.numbers.front().first ? "" : ",") << JsonString{name} << ":" << number;
      out << "}}";
    }
  }
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
