// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks the policy, within the limits that requests and options set.

#include "runtime/serve/Dispatcher.h"

#include <algorithm>
#include <cmath>

namespace cleave::runtime::serve {

/// There is a policy for every step of the rate by such a share; they are made anew when a time has changed by more
/// than that.
static constexpr double rateStep = 0.04, timeTolerance = 0.15;
/// How many usual times between arrivals a queue waits for the next one.
static constexpr double patience = 3;

static Time nanoseconds(double seconds) { return seconds < 9e9 ? static_cast<Time>(std::ceil(seconds * 1e9)) : never; }

static Time later(Time time, Time by) { return by >= never - time ? never : time + by; }

static bool isNear(double value, double other) { return std::abs(std::log(value / other)) < timeTolerance; }

Dispatcher::Dispatcher(BatchTable table, DispatcherOptions options) : table(std::move(table)), options(options) {
  this->options.inFlight = std::max(1u, options.inFlight);
}

/// How long a batch of each size keeps the next one from starting: in a pipeline a stage of it does.
std::vector<double> Dispatcher::secondsOfSizes() const {
  std::vector<double> seconds;
  for (size_t size = 0; size != table.size(); ++size)
    seconds.push_back(table.seconds(size) / options.inFlight);
  return seconds;
}

/// What a batch of the size takes, where that has been measured; else 0: nobody is late by a prediction.
Time Dispatcher::timeOf(size_t size) const { return table.isMeasured(size) ? nanoseconds(table.seconds(size)) : 0; }

/// When a new request is over if what goes before it runs in batches of the fastest size, after what runs now.
Time Dispatcher::expectedEnd(const Request &request, uint64_t samplesBefore) const {
  Time now = request.arrival, idle = now;
  for (auto &[number, batch] : batches)
    idle = std::max(idle, later(batch.begin, timeOf(batch.size)));
  size_t fastest = table.fastest();
  uint64_t samples = samplesBefore + request.samples;
  // All of them but the last batch, which is as large as it has to be.
  uint64_t full = (samples - 1) / table.samples(fastest), rest = samples - full * table.samples(fastest);
  double each = static_cast<double>(timeOf(fastest)) * 1e-9 / options.inFlight;
  Time last = timeOf(full != 0 ? fastest : table.fitting(rest));
  return later(idle, nanoseconds(static_cast<double>(full) * each + static_cast<double>(last) * 1e-9));
}

bool Dispatcher::isLate(const Request &request, uint64_t samplesBefore) const {
  return request.deadline != never && expectedEnd(request, samplesBefore) > request.deadline;
}

/// Times are corrected by what runs. If one has been measured too long, so that all are refused and nothing runs, it
/// would stay so: whoever comes while there is nothing else to do is tried by the least that was measured.
bool Dispatcher::isTrial(const Request &request) const {
  if (!batches.empty() || !queue.empty() || !announced.empty() || request.samples > table.largest())
    return false;
  size_t size = table.fitting(request.samples);
  return later(request.arrival, nanoseconds(table.leastSeconds(size))) <= request.deadline;
}

bool Dispatcher::hasPlace(const Request &request) {
  announced.removeDue(request.arrival);
  return queue.samples() + announced.samples() + request.samples <= options.queueLimit;
}

Admission Dispatcher::announce(const Request &request) {
  if (!hasPlace(request))
    return Admission::Full;
  uint64_t before = queue.samplesBefore(request.priority) + announced.samplesBefore(request.priority);
  if (isLate(request, before) && !isTrial(request)) {
    arrivals.add(request.arrival, request.samples);
    return Admission::Late;
  }
  Request place = request;
  place.deadline = later(request.arrival, options.announcedFor);
  announced.push(place);
  return Admission::Queued;
}

Admission Dispatcher::submit(const Request &request) {
  announced.remove(request.id);
  if (!hasPlace(request))
    return Admission::Full;
  arrivals.add(request.arrival, request.samples);
  lastArrival = request.arrival;
  // What is announced has not come; it does not go before what has.
  Request taken = request;
  if (isLate(request, queue.samplesBefore(request.priority))) {
    if (!isTrial(request))
      return Admission::Late;
    // By the times that it is to correct it would be dropped.
    taken.deadline = never;
  }
  queue.push(taken);
  return Admission::Queued;
}

const BatchPolicy &Dispatcher::policyAt(Time now) {
  std::vector<double> seconds = secondsOfSizes();
  double rate = std::max(arrivals.perSecond(now), 1e-3 * table.capacity());
  if (!std::ranges::equal(seconds, policySeconds, isNear)) {
    policies.clear();
    policySeconds = std::move(seconds);
  }
  rate = std::min(rate, 2 * table.capacity());
  int step = static_cast<int>(std::lround(std::log(rate) / rateStep));
  auto found = policies.find(step);
  if (found == policies.end())
    found = policies.emplace(step, BatchPolicy(table, policySeconds, std::exp(step * rateStep))).first;
  return found->second;
}

std::optional<size_t> Dispatcher::untried() const {
  size_t size = table.fitting(queue.samples());
  return table.isMeasured(size) ? std::nullopt : std::optional(size);
}

Batch Dispatcher::start(Time now, size_t size) {
  Batch batch{nextNumber++, size, queue.take(table.samples(size)), 0};
  for (const Slice &slice : batch.slices)
    batch.samples += slice.count;
  batches[batch.number] = {size, now};
  return batch;
}

std::optional<size_t> Dispatcher::chooseSize(Time now, Time &wakeAt) {
  if (auto size = untried())
    return size;
  if (auto size = policyAt(now).choose(queue.samples()))
    return size;
  double rate = std::max(arrivals.perSecond(now), 1e-9);
  Time limit = std::min(later(queue.oldest(), options.maxDelay), later(lastArrival, nanoseconds(patience / rate)));
  if (now >= limit)
    return table.fitting(queue.samples());
  wakeAt = std::min(wakeAt, limit);
  return std::nullopt;
}

Action Dispatcher::next(Time now) {
  Action action;
  // Late is what would be so even if it started at once, alone.
  action.dropped = queue.removeDue(later(now, timeOf(0)));
  while (!queue.empty() && batches.size() < options.inFlight && !action.batch) {
    std::optional<size_t> size = chooseSize(now, action.wakeAt);
    if (!size)
      break;
    // A smaller batch may be over in time; where it would not keep up with what arrives, more would be late for it.
    while (*size != 0 && later(now, timeOf(*size)) > queue.nextDeadline() &&
           table.samples(*size - 1) / table.seconds(*size - 1) * options.inFlight > arrivals.perSecond(now))
      --*size;
    std::vector<RequestId> late = queue.removeDue(later(now, timeOf(*size)));
    action.dropped.insert(action.dropped.end(), late.begin(), late.end());
    if (late.empty())
      action.batch = start(now, *size);
  }
  if (Time due = queue.nextDeadline(); due != never)
    action.wakeAt = std::min(action.wakeAt, due - timeOf(0) + 1);
  return action;
}

void Dispatcher::finish(uint64_t number, double seconds) {
  auto found = batches.find(number);
  if (found == batches.end())
    return;
  table.measure(found->second.size, seconds);
  batches.erase(found);
}

} // namespace cleave::runtime::serve
