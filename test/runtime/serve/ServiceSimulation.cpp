// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Event by event, in the order of time.

#include "ServiceSimulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace cleave::runtime::serve {

static Time nanoseconds(double seconds) { return static_cast<Time>(seconds * 1e9); }

std::vector<Time> poissonArrivals(double perSecond, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(perSecond);
  std::vector<Time> arrivals;
  double now = 0;
  for (size_t i = 0; i != count; ++i)
    arrivals.push_back(nanoseconds(now += gap(random)));
  return arrivals;
}

double capacityOf(const Sizes &sizes) {
  double most = 0;
  for (const BatchSize &size : sizes)
    most = std::max(most, size.samples / size.seconds);
  return most;
}

Latencies latenciesOf(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  double sum = 0;
  for (double each : seconds)
    sum += each;
  auto rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(seconds.size())));
  return {sum / static_cast<double>(seconds.size()), seconds[rank - 1]};
}

/// Of the smallest size that so many samples fit into.
static Time timeOf(const Sizes &sizes, size_t samples) {
  for (const BatchSize &size : sizes)
    if (size.samples >= samples)
      return nanoseconds(size.seconds);
  return nanoseconds(sizes.back().seconds);
}

Latencies runFixedPair(const Sizes &sizes, const std::vector<Time> &arrivals, uint32_t size, Time delay,
                       size_t servers) {
  std::vector<double> seconds;
  std::vector<Time> idle(servers);
  for (size_t first = 0; first != arrivals.size();) {
    Time &idleFrom = *std::ranges::min_element(idle);
    Time full = first + size <= arrivals.size() ? arrivals[first + size - 1] : never;
    Time start = std::max(idleFrom, std::min(full, arrivals[first] + delay));
    size_t count = 0;
    while (count != size && first + count != arrivals.size() && arrivals[first + count] <= start)
      ++count;
    idleFrom = start + timeOf(sizes, count);
    for (size_t i = 0; i != count; ++i)
      seconds.push_back(static_cast<double>(idleFrom - arrivals[first + i]) * 1e-9);
    first += count;
  }
  return latenciesOf(std::move(seconds));
}

Latencies bestFixedPair(const Sizes &sizes, const std::vector<Time> &arrivals, size_t servers) {
  Latencies best{1e300, 1e300};
  Time one = nanoseconds(sizes.front().seconds);
  for (uint32_t size = 1; size <= sizes.back().samples; ++size)
    for (Time delay : {Time(0), one / 4, one / 2, one, 2 * one, 4 * one, 8 * one}) {
      if (size == 1 && delay != 0)
        continue;
      Latencies found = runFixedPair(sizes, arrivals, size, delay, servers);
      best = {std::min(best.mean, found.mean), std::min(best.p99, found.p99)};
    }
  return best;
}

Latencies runDispatcher(Dispatcher &dispatcher, const Sizes &sizes, const std::vector<Time> &arrivals, Time maxDelay,
                        size_t ignored) {
  return runDispatcher(dispatcher, std::vector<Sizes>{sizes}, arrivals, maxDelay, ignored);
}

Latencies runDispatcher(Dispatcher &dispatcher, const std::vector<Sizes> &instances, const std::vector<Time> &arrivals,
                        Time maxDelay, size_t ignored) {
  std::vector<double> seconds(arrivals.size());
  size_t arrived = 0, done = 0;
  std::vector<std::optional<Batch>> running(instances.size());
  std::vector<Time> ends(instances.size(), never);
  Time wake = never;
  std::set<Time> waiting;
  auto takes = [&](size_t instance) {
    const Sizes &sizes = instances[instance];
    return timeOf(sizes, sizes[running[instance]->size].samples);
  };
  while (done != arrivals.size()) {
    Time next = arrived != arrivals.size() ? arrivals[arrived] : never;
    Time now = std::min({next, *std::ranges::min_element(ends), wake});
    if (now == never) {
      ADD_FAILURE() << "expected something to happen, got " << waiting.size() << " requests that nobody runs";
      break;
    }
    for (size_t instance = 0; instance != instances.size(); ++instance) {
      if (now != ends[instance])
        continue;
      std::optional<Batch> &over = running[instance];
      dispatcher.finish(over->number, static_cast<double>(takes(instance)) * 1e-9);
      for (const Slice &slice : over->slices)
        seconds[slice.id] = static_cast<double>(now - arrivals[slice.id]) * 1e-9;
      done += over->slices.size();
      over.reset();
      ends[instance] = never;
    }
    if (now == next) {
      EXPECT_EQ(dispatcher.submit({arrived, 1, 0, now, never}), Admission::Queued);
      waiting.insert(now);
      ++arrived;
    }
    for (Action action = dispatcher.next(now);; action = dispatcher.next(now)) {
      wake = action.wakeAt;
      if (!action.batch)
        break;
      size_t instance = action.batch->instance;
      EXPECT_FALSE(running[instance]) << "expected one batch at a time";
      running[instance] = action.batch;
      ends[instance] = now + takes(instance);
      for (const Slice &slice : running[instance]->slices)
        waiting.erase(arrivals[slice.id]);
    }
    bool areBusy = std::ranges::all_of(running, [](const std::optional<Batch> &batch) { return batch.has_value(); });
    EXPECT_TRUE(areBusy || waiting.empty() || now < *waiting.begin() + maxDelay)
        << "expected a batch to start when a request has waited for the longest delay";
  }
  return latenciesOf({seconds.begin() + static_cast<std::ptrdiff_t>(ignored), seconds.end()});
}

} // namespace cleave::runtime::serve
