// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks the policy, within the limits that requests and options set.

#include "runtime/serve/Dispatcher.h"

#include <algorithm>
#include <cmath>

namespace cleave::runtime::serve {

/// How many usual times between arrivals a queue waits for the next one.
static constexpr double patience = 3;
/// For so many times as its smallest batch takes an idle server refuses what it cannot do in time; then it tries what
/// it could if what was measured were so many times too long.
static constexpr Time batchesUntilTrial = 64, mostTooLong = 8;
/// Under overload a request waits for such a part of the time that it may wait. A longer queue would not have more
/// done, only later; the rest is for what is not seen here: how long requests and answers are on their way, and how
/// much longer than usual batches take.
static constexpr double partOfWait = 0.5;

size_t Dispatcher::addInstance(BatchTable table, unsigned inFlight) {
  instances.emplace_back(std::move(table), inFlight);
  return instances.size() - 1;
}

size_t Dispatcher::running() const {
  size_t sum = 0;
  for (const DispatchedInstance &instance : instances)
    sum += instance.numRunning();
  return sum;
}

double Dispatcher::capacity() const {
  double sum = 0;
  for (const DispatchedInstance &instance : instances)
    sum += instance.isLost ? 0 : instance.capacity();
  return sum;
}

Time Dispatcher::leastTime() const {
  Time least = never;
  for (const DispatchedInstance &instance : instances)
    if (!instance.isLost)
      least = std::min(least, instance.measuredTime(0));
  return least == never ? 0 : least;
}

/// When a new request begins and is over if what goes before it runs in batches of the fastest size, after what runs
/// now: all instances take from it from when they are idle on. Without instances that is not known: now.
Dispatcher::Expected Dispatcher::expected(const Request &request, uint64_t samplesBefore) const {
  std::vector<std::pair<Time, const DispatchedInstance *>> idle;
  for (const DispatchedInstance &instance : instances)
    if (!instance.isLost)
      idle.emplace_back(instance.idleAt(request.arrival), &instance);
  if (idle.empty())
    return {request.arrival, request.arrival};
  std::ranges::stable_sort(idle, {}, &std::pair<Time, const DispatchedInstance *>::first);
  const DispatchedInstance &first = *idle.front().second;
  size_t fastest = first.table.fastest();
  uint64_t samples = samplesBefore + request.samples;
  // All of them but the last batch, which is as large as it has to be.
  uint64_t full = (samples - 1) / first.table.samples(fastest), rest = samples - full * first.table.samples(fastest);
  double left = static_cast<double>(full * first.table.samples(fastest)), rate = 0;
  Time time = idle.front().first;
  for (size_t i = 0; i != idle.size(); ++i) {
    Time next = i + 1 != idle.size() ? idle[i + 1].first : never;
    rate += idle[i].second->measuredRate(idle[i].second->table.fastest());
    Time end = later(time, nanosecondsOf(left / rate));
    if (end <= next) {
      time = end;
      break;
    }
    left -= rate * static_cast<double>(next - time) * 1e-9;
    time = next;
  }
  return {time, later(time, first.measuredTime(full != 0 ? fastest : first.table.fitting(rest)))};
}

bool Dispatcher::isLate(const Request &request, uint64_t samplesBefore) const {
  return request.deadline != never && expected(request, samplesBefore).end > request.deadline;
}

/// Whatever fills the next batches may wait: no device is idle for it.
bool Dispatcher::waitsTooLong(const Request &request, uint64_t samplesBefore) const {
  if (request.deadline == never || !arrivals.isReliable() || arrivals.perSecond(request.arrival) <= capacity())
    return false;
  uint64_t next = 0;
  for (const DispatchedInstance &instance : instances)
    next += instance.isLost ? 0 : instance.samplesAtATime();
  if (samplesBefore < next)
    return false;
  auto [begin, end] = expected(request, samplesBefore);
  Time mayWait = request.deadline - request.arrival - (end - begin);
  return static_cast<double>(begin - request.arrival) > partOfWait * static_cast<double>(mayWait);
}

/// Times are corrected by what runs. If one has been measured too long, so that all are refused and nothing runs, it
/// would stay so: whoever comes while there is nothing else to do is tried by the least that was measured. That may
/// have been too long as well; so once in a while somebody is tried by a fraction of it.
bool Dispatcher::isTrial(const Request &request) const {
  if (running() != 0 || !queue.empty() || !announced.empty())
    return false;
  bool hasIdled = request.arrival - lastStart > batchesUntilTrial * leastTime();
  return std::ranges::any_of(instances, [&](const DispatchedInstance &instance) {
    if (instance.isLost || request.samples > instance.table.largest())
      return false;
    size_t size = instance.table.fitting(request.samples);
    Time least = nanosecondsOf(instance.table.leastSeconds(size));
    return later(request.arrival, hasIdled ? least / mostTooLong : least) <= request.deadline;
  });
}

bool Dispatcher::hasPlace(const Request &request) {
  announced.removeDue(request.arrival);
  return queue.samples() + announced.samples() + request.samples <= options.queueLimit;
}

Admission Dispatcher::announce(const Request &request) {
  if (!hasPlace(request))
    return Admission::Full;
  uint64_t before = queue.samplesBefore(request.priority) + announced.samplesBefore(request.priority);
  if ((isLate(request, before) || waitsTooLong(request, before)) && !isTrial(request)) {
    arrivals.add(request.arrival, request.samples);
    return Admission::Late;
  }
  Request place = request;
  place.deadline = later(request.arrival, options.announcedFor);
  announced.push(place);
  return Admission::Queued;
}

Admission Dispatcher::submit(const Request &request) {
  bool wasAnnounced = announced.remove(request.id);
  if (!hasPlace(request))
    return Admission::Full;
  arrivals.add(request.arrival, request.samples);
  // What is announced has not come; it does not go before what has. What has come after it was announced is worth more
  // than what has not.
  Request taken = request;
  uint64_t before = queue.samplesBefore(request.priority);
  if (isLate(request, before) || (!wasAnnounced && waitsTooLong(request, before))) {
    if (!isTrial(request))
      return Admission::Late;
    // By the times that it is to correct it would be dropped.
    taken.deadline = never;
  }
  lastArrival = request.arrival;
  queue.push(taken);
  return Admission::Queued;
}

/// How long what waits may wait for more, where it could start.
Time Dispatcher::latestStart(const DispatchedInstance &instance) const {
  Time limit = later(queue.oldest(), options.maxDelay);
  if (Time due = queue.nextDeadline(); due != never)
    limit = std::min(limit, due - instance.measuredTime(instance.table.fitting(queue.samples())));
  return limit;
}

std::optional<size_t> Dispatcher::chooseInstance(Time now, Time &wakeAt) const {
  uint64_t waiting = queue.samples();
  std::optional<size_t> best;
  Time bestEnd = never;
  for (size_t i = 0; i != instances.size(); ++i)
    if (instances[i].isFree())
      if (Time end = instances[i].endOf(waiting, now); !best || end < bestEnd) {
        best = i;
        bestEnd = end;
      }
  Time limit = best ? latestStart(instances[*best]) : never;
  if (!best || now >= limit)
    return best;
  // What others, which are faster, have done by then though they are busy now. They are not waited for longer than
  // their batches should have taken.
  uint64_t elsewhere = 0;
  Time look = limit;
  for (const DispatchedInstance &other : instances) {
    Time freeAt = other.isLost ? never : other.freeAt(now), end = other.isLost ? never : other.endOf(waiting, now);
    if (freeAt <= now || end >= bestEnd)
      continue;
    size_t size = other.table.fitting(waiting);
    auto more = static_cast<uint64_t>((bestEnd - end) / std::max<Time>(1, other.turn(size)));
    elsewhere += other.table.samples(size) * (1 + more);
    look = std::min(look, freeAt);
  }
  // What arrives until then wants them as well: on the average half of it is there.
  double arriving = arrivals.perSecond(now) * static_cast<double>(bestEnd - now) * 1e-9 / 2;
  if (static_cast<double>(elsewhere) < static_cast<double>(waiting) + arriving)
    return best;
  wakeAt = std::min(wakeAt, look);
  return std::nullopt;
}

std::optional<size_t> Dispatcher::untried(const DispatchedInstance &instance) const {
  size_t size = instance.table.fitting(queue.samples());
  return instance.table.isMeasured(size) ? std::nullopt : std::optional(size);
}

const BatchPolicy &Dispatcher::policyOf(DispatchedInstance &instance, Time now) const {
  double all = capacity(), rate = std::clamp(arrivals.perSecond(now), 1e-3 * all, 2 * all);
  return instance.policy(rate, instance.capacity() / all);
}

void Dispatcher::prepare(Time now) {
  for (DispatchedInstance &instance : instances)
    if (!instance.isLost)
      policyOf(instance, now);
}

std::optional<size_t> Dispatcher::chooseSize(DispatchedInstance &instance, Time now, Time &wakeAt) {
  if (auto size = untried(instance))
    return size;
  if (auto size = policyOf(instance, now).choose(queue.samples()))
    return size;
  Time gap = nanosecondsOf(patience / std::max(arrivals.perSecond(now), 1e-9));
  Time limit = std::min(latestStart(instance), later(lastArrival, gap));
  if (now >= limit)
    return instance.table.fitting(queue.samples());
  wakeAt = std::min(wakeAt, limit);
  return std::nullopt;
}

Batch Dispatcher::start(size_t instance, size_t size, Time now) {
  Batch batch{nextNumber++, instance, size, queue.take(instances[instance].table.samples(size)), 0};
  for (const Slice &slice : batch.slices)
    batch.samples += slice.count;
  instances[instance].begin(batch.number, size, now);
  lastStart = now;
  return batch;
}

Action Dispatcher::next(Time now) {
  Action action;
  // Late is what would be so even if it started at once, alone.
  action.dropped = queue.removeDue(later(now, leastTime()));
  while (!queue.empty() && !action.batch) {
    std::optional<size_t> chosen = chooseInstance(now, action.wakeAt);
    if (!chosen)
      break;
    DispatchedInstance &instance = instances[*chosen];
    std::optional<size_t> size = chooseSize(instance, now, action.wakeAt);
    if (!size)
      break;
    // A smaller batch may be over in time; where it would not keep up with what arrives, more would be late for it.
    const BatchTable &table = instance.table;
    double others = capacity() / table.capacity();
    while (*size != 0 && later(now, instance.measuredTime(*size)) > queue.nextDeadline() &&
           table.samples(*size - 1) / table.seconds(*size - 1) * others > arrivals.perSecond(now))
      --*size;
    std::vector<RequestId> late = queue.removeDue(later(now, instance.measuredTime(*size)));
    action.dropped.insert(action.dropped.end(), late.begin(), late.end());
    if (late.empty())
      action.batch = start(*chosen, *size, now);
  }
  if (Time due = queue.nextDeadline(); due != never)
    action.wakeAt = std::min(action.wakeAt, due - leastTime() + 1);
  return action;
}

std::optional<Dispatcher::Upcoming> Dispatcher::upcoming(Time now) const {
  std::optional<size_t> first;
  for (size_t i = 0; i != instances.size(); ++i)
    if (!instances[i].isLost && !instances[i].isFree() &&
        (!first || instances[i].freeAt(now) < instances[*first].freeAt(now)))
      first = i;
  if (!first || queue.empty())
    return std::nullopt;
  const BatchTable &table = instances[*first].table;
  return Upcoming{*first, queue.peek(table.samples(table.fastest()))};
}

void Dispatcher::finish(uint64_t number, double seconds) {
  for (DispatchedInstance &instance : instances)
    if (instance.finish(number, seconds))
      return;
}

} // namespace cleave::runtime::serve
