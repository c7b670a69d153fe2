// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instances that share a queue, on a simulated clock: which of them gets a batch, against theory and against the best
// of all rules of a kind, and what happens to the queue when one is lost.

#include "ServiceSimulation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cleave::runtime::serve {
namespace {

constexpr Time ms = 1'000'000;

Dispatcher dispatcherOf(const std::vector<Sizes> &instances, Time maxDelay) {
  Dispatcher dispatcher({.maxDelay = maxDelay, .queueLimit = 1u << 30});
  for (const Sizes &sizes : instances) {
    BatchTable table = *BatchTable::create(sizes);
    for (size_t size = 0; size != sizes.size(); ++size)
      table.measure(size, sizes[size].seconds);
    dispatcher.addInstance(std::move(table));
  }
  return dispatcher;
}

/// Batches that pay little, much, and something in between, with a last size that is worse than the one before.
const Sizes tables[] = {{{1, .010}, {2, .0195}, {4, .0385}, {8, .0765}},
                        {{1, .001}, {4, .0012}, {16, .002}, {32, .003}},
                        {{1, .004}, {2, .0065}, {4, .0105}, {8, .018}, {16, .034}, {32, .075}}};

// R instances do R times as much: all samples are there from the start, and all are done in a share of the time.
TEST(DispatcherInstances, MultiplyTheThroughput) {
  for (const Sizes &sizes : tables)
    for (size_t count : {1, 2, 3, 8}) {
      std::vector<Time> arrivals(static_cast<size_t>(48'000), 0);
      for (size_t i = 0; i != arrivals.size(); ++i)
        arrivals[i] = static_cast<Time>(i);
      std::vector<Sizes> instances(count, sizes);
      Dispatcher dispatcher = dispatcherOf(instances, 5 * ms);
      Latencies own = runDispatcher(dispatcher, instances, arrivals, 5 * ms);
      // The mean sample of many that are done at a steady rate is done at half of the time.
      double perSecond = static_cast<double>(arrivals.size()) / (2 * own.mean);
      EXPECT_NEAR(perSecond / (static_cast<double>(count) * capacityOf(sizes)), 1, 0.03) << count;
    }
}

// One sample at a time on equal instances is the queue G/D/c, whose waits the recursion of Kiefer and Wolfowitz gives:
// each request goes to whoever is idle first.
TEST(DispatcherInstances, AreAQueueOfSeveralServers) {
  for (size_t count : {2, 5})
    for (double load : {0.3, 0.8, 0.95}) {
      auto arrivals = poissonArrivals(load * 100 * static_cast<double>(count), 30'000, 7);
      std::vector<Time> idle(count);
      std::vector<double> seconds;
      for (Time arrival : arrivals) {
        Time &first = *std::ranges::min_element(idle);
        first = std::max(first, arrival) + 10 * ms;
        seconds.push_back(static_cast<double>(first - arrival) * 1e-9);
      }
      Latencies expected = latenciesOf(std::move(seconds));
      std::vector<Sizes> instances(count, Sizes{{1, .01}});
      Dispatcher dispatcher = dispatcherOf(instances, 100 * ms);
      Latencies own = runDispatcher(dispatcher, instances, arrivals, 100 * ms);
      EXPECT_NEAR(own.mean, expected.mean, 1e-6);
      EXPECT_NEAR(own.p99, expected.p99, 1e-6);
    }
}

// With batches, the mean is no worse than 1.1 times that of the best of the fixed pairs of a size and a delay for as
// many servers. The 99th percentile is no goal of the policy; the best pair for it is another one.
TEST(DispatcherInstances, AreAsGoodAsTheBestFixedPair) {
  for (const Sizes &sizes : tables)
    for (size_t count : {2, 4})
      for (double load : {0.1, 0.5, 0.8, 0.95}) {
        auto arrivals = poissonArrivals(load * capacityOf(sizes) * static_cast<double>(count), 30'000, 8);
        auto maxDelay = static_cast<Time>(sizes.front().seconds * 1e10);
        std::vector<Sizes> instances(count, sizes);
        Dispatcher dispatcher = dispatcherOf(instances, maxDelay);
        Latencies own = runDispatcher(dispatcher, instances, arrivals, maxDelay);
        Latencies best = bestFixedPair(sizes, arrivals, count);
        EXPECT_LE(own.mean, 1.1 * best.mean) << count << " at " << load;
        EXPECT_LE(own.p99, 1.3 * best.p99) << count << " at " << load;
        RecordProperty("servers" + std::to_string(count) + "size" + std::to_string(sizes.size()) + "load" +
                           std::to_string(static_cast<int>(load * 100)),
                       std::to_string(own.mean / best.mean) + " " + std::to_string(own.p99 / best.p99));
      }
}

/// A fast server and a slow one, which is used only where at least `threshold` wait: the best rule for two servers has
/// this form (Lin and Kumar, "Optimal control of a queueing system with two heterogeneous servers", 1984).
Latencies runThreshold(const std::vector<Time> &arrivals, Time fast, Time slow, size_t threshold) {
  std::vector<double> seconds;
  Time ends[2] = {0, 0};
  size_t arrived = 0, begun = 0;
  for (Time now = 0; begun != arrivals.size();) {
    while (arrived != arrivals.size() && arrivals[arrived] <= now)
      ++arrived;
    for (int server : {0, 1})
      if (size_t waiting = arrived - begun; ends[server] <= now && waiting >= (server == 0 ? 1 : threshold)) {
        ends[server] = now + (server == 0 ? fast : slow);
        seconds.push_back(static_cast<double>(ends[server] - arrivals[begun++]) * 1e-9);
      }
    Time next = arrived != arrivals.size() ? arrivals[arrived] : never;
    for (Time end : ends)
      next = end > now ? std::min(next, end) : next;
    now = next;
  }
  return latenciesOf(std::move(seconds));
}

// Of unlike speed: no worse than the best threshold, found by trying them, and better than to use whatever is idle.
TEST(DispatcherInstances, LeaveSlowOnesOutWhereFastOnesAreDoneBefore) {
  for (double ratio : {1.5, 3.5, 8.0})
    for (double load : {0.2, 0.5, 0.8, 0.95}) {
      std::vector<Sizes> instances = {{{1, .01 * ratio}}, {{1, .01}}};
      auto arrivals = poissonArrivals(load * (100 + 100 / ratio), 40'000, 9);
      Dispatcher dispatcher = dispatcherOf(instances, 1000 * ms);
      Latencies own = runDispatcher(dispatcher, instances, arrivals, 1000 * ms);
      double best = 1e300, any = 0;
      for (size_t threshold = 1; threshold != 20; ++threshold) {
        Latencies found = runThreshold(arrivals, 10 * ms, static_cast<Time>(ratio * 10 * ms), threshold);
        best = std::min(best, found.mean);
        any = threshold == 1 ? found.mean : any;
      }
      EXPECT_LE(own.mean, 1.1 * best) << ratio << " at " << load;
      EXPECT_LE(own.mean, 1.001 * any) << ratio << " at " << load;
      RecordProperty("ratio" + std::to_string(static_cast<int>(10 * ratio)) + "load" +
                         std::to_string(static_cast<int>(load * 100)),
                     std::to_string(own.mean / best) + " of " + std::to_string(any / best));
    }
}

// The one on which a batch ends first gets it; a slow one is not used for what the fast one does before, and nobody
// waits for it longer than the delay.
TEST(DispatcherInstances, TakeWhatEndsFirst) {
  Dispatcher dispatcher = dispatcherOf({{{1, .03}}, {{1, .01}}}, 15 * ms);
  RequestId id = 0;
  Time now = 0;
  auto submit = [&] { dispatcher.submit({id++, 1, 0, now, never}); };
  // What runs now begins on: -1, nothing.
  auto start = [&](Time time) {
    now = time;
    auto batch = dispatcher.next(now).batch;
    return batch ? static_cast<int>(batch->instance) : -1;
  };
  // Few come: one a second.
  for (uint64_t batch = 0; batch != 20; ++batch) {
    submit();
    EXPECT_EQ(start(now), 1);
    dispatcher.finish(batch, .01);
    now += 1000 * ms;
  }
  Time begin = now;
  for (int i = 0; i != 3; ++i)
    submit();
  EXPECT_EQ(start(begin), 1);
  EXPECT_EQ(start(begin), 0)
      << "the other two would be over on the fast one after 20 and 30 ms, and the slow one takes 30";
  EXPECT_EQ(start(begin), -1);
  dispatcher.finish(20, .01);
  EXPECT_EQ(start(begin + 10 * ms), 1);
  dispatcher.finish(21, .03);
  now = begin + 12 * ms;
  submit();
  EXPECT_EQ(start(now), -1) << "the fast one has done it in 18 ms";
  EXPECT_EQ(dispatcher.next(now).wakeAt, begin + 20 * ms);
  // It should be over, but is not: nobody knows when it will be.
  EXPECT_EQ(start(begin + 20 * ms + 1), 0);
}

// A deadline is compared with what all instances do together.
TEST(DispatcherInstances, AreCountedForDeadlines) {
  for (size_t count : {1, 4}) {
    Dispatcher dispatcher = dispatcherOf(std::vector<Sizes>(count, Sizes{{1, .01}}), ms);
    RequestId id = 0;
    size_t admitted = 0;
    while (dispatcher.submit({id++, 1, 0, 0, 50 * ms}) == Admission::Queued)
      ++admitted;
    EXPECT_GE(admitted, 4 * count + 1);
    EXPECT_LE(admitted, 5 * count);
  }
}

// What waits when an instance is lost runs on others, or on it once it is back; deadlines are watched meanwhile.
TEST(DispatcherInstances, AreLostWithoutTheQueue) {
  Dispatcher dispatcher = dispatcherOf(std::vector<Sizes>(2, Sizes{{1, .01}}), ms);
  for (RequestId id = 0; id != 5; ++id)
    dispatcher.submit({id, 1, 0, 0, never});
  auto first = dispatcher.next(0).batch, second = dispatcher.next(0).batch;
  ASSERT_TRUE(first && second);
  dispatcher.lose(first->instance);
  EXPECT_EQ(dispatcher.running(), 1u);
  EXPECT_FALSE(dispatcher.next(ms).batch);
  dispatcher.finish(second->number, 0.01);
  auto third = dispatcher.next(10 * ms).batch;
  ASSERT_TRUE(third);
  EXPECT_EQ(third->instance, second->instance);
  dispatcher.lose(third->instance);
  EXPECT_EQ(dispatcher.waiting(), 2u);
  EXPECT_EQ(dispatcher.submit({5, 1, 0, 11 * ms, 20 * ms}), Admission::Queued);
  Action none = dispatcher.next(11 * ms);
  EXPECT_FALSE(none.batch);
  EXPECT_EQ(dispatcher.next(none.wakeAt).dropped, (std::vector<RequestId>{5}));
  dispatcher.restore(first->instance, *BatchTable::create({{4, .02}}));
  auto last = dispatcher.next(30 * ms).batch;
  ASSERT_TRUE(last);
  EXPECT_EQ(last->instance, first->instance);
  EXPECT_EQ(last->samples, 2u);
}

} // namespace
} // namespace cleave::runtime::serve
