// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dispatcher's rules one by one, and all of them under random requests.

#include "runtime/serve/Dispatcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace cleave::runtime::serve {
namespace {

constexpr Time millisecond = 1'000'000;

BatchTable tableOf(std::vector<BatchSize> sizes) { return *BatchTable::create(std::move(sizes)); }

/// Sizes 1 and 4 that take 10 ms each.
BatchTable twoSizesTable() { return tableOf({{1, 0.01}, {4, 0.01}}); }
Dispatcher twoSizes(DispatcherOptions options = {}) { return {twoSizesTable(), options}; }

/// The same, which have run.
BatchTable measuredTable() {
  BatchTable table = twoSizesTable();
  for (size_t size : {0, 1})
    table.measure(size, 0.01);
  return table;
}

std::vector<RequestId> idsOf(const std::vector<Slice> &slices) {
  std::vector<RequestId> ids;
  for (const Slice &slice : slices)
    ids.push_back(slice.id);
  return ids;
}

// What plans say of themselves is not believed unseen.
TEST(BatchTable, RefusesWhatIsNoTable) {
  EXPECT_EQ(BatchTable::create({}).error().message(), "a table of batches expects at least one size, got none");
  EXPECT_EQ(BatchTable::create({{2, 1}, {2, 1}}).error().message(),
            "a table of batches expects increasing sizes, got 2 samples after 2");
  EXPECT_EQ(BatchTable::create({{1, 0}}).error().message(),
            "a batch of 1 samples expects a positive time, got 0 seconds");
}

// What a size took when the machine was busy is not held against it for ever: after a hundred batches of others it is
// as fast as it was at best, and what it takes then is what counts. One that was never fast is not tried.
TEST(BatchTable, TriesAgainWhatWasSlow) {
  BatchTable table = tableOf({{1, 1}, {2, 1.5}, {4, 9}});
  table.measure(0, 1);
  table.measure(1, 1.5);
  table.measure(2, 9);
  for (int i = 0; i != 10; ++i)
    table.measure(1, 5);
  EXPECT_EQ(table.fastest(), 0u);
  auto runFirst = [&](int batches) {
    for (int i = 0; i != batches; ++i)
      table.measure(0, 1);
  };
  runFirst(40);
  EXPECT_EQ(table.fastest(), 0u);
  runFirst(100);
  EXPECT_EQ(table.fastest(), 1u);
  table.measure(1, 5);
  EXPECT_EQ(table.fastest(), 0u);
  runFirst(140);
  EXPECT_EQ(table.fastest(), 1u);
  table.measure(1, 1.5);
  EXPECT_EQ(table.fastest(), 1u);
}

// A machine that is half as fast is so at sizes that have not run; each size then says what is true of it.
TEST(BatchTable, LearnsFromMeasurements) {
  BatchTable table = tableOf({{1, 1}, {2, 2}, {4, 4}});
  for (int i = 0; i != 50; ++i)
    table.measure(0, 2);
  EXPECT_NEAR(table.seconds(0), 2, 0.02);
  EXPECT_NEAR(table.seconds(2), 8, 0.08);
  for (int i = 0; i != 200; ++i)
    table.measure(2, 3);
  EXPECT_NEAR(table.seconds(2), 3, 0.15);
  EXPECT_NEAR(table.seconds(0), 2, 0.15);
  table.measure(0, -1);
  EXPECT_NEAR(table.seconds(0), 2, 0.15);
}

// An idle server with nothing to expect starts at once, with the size that fits.
TEST(Dispatcher, StartsTheFirstRequestAtOnce) {
  Dispatcher dispatcher = twoSizes();
  EXPECT_FALSE(dispatcher.next(0).batch);
  ASSERT_EQ(dispatcher.submit({7, 1, 0, 0, never}), Admission::Queued);
  Action action = dispatcher.next(0);
  ASSERT_TRUE(action.batch);
  EXPECT_EQ(action.batch->slices, (std::vector<Slice>{{7, 0, 1}}));
  EXPECT_FALSE(dispatcher.next(0).batch);
}

// What came while a batch ran goes together, padded where no size fits.
TEST(Dispatcher, BatchesWhatWaits) {
  Dispatcher dispatcher = twoSizes();
  dispatcher.submit({0, 1, 0, 0, never});
  auto first = dispatcher.next(0).batch;
  ASSERT_TRUE(first);
  for (RequestId id : {1, 2, 3})
    dispatcher.submit({id, 1, 0, millisecond, never});
  EXPECT_FALSE(dispatcher.next(millisecond).batch);
  dispatcher.finish(first->number, 0.01);
  auto second = dispatcher.next(10 * millisecond).batch;
  ASSERT_TRUE(second);
  EXPECT_EQ(idsOf(second->slices), (std::vector<RequestId>{1, 2, 3}));
  EXPECT_EQ(second->samples, 3u);
  EXPECT_EQ(second->size, 1u);
}

// What the next batch begins with can be known while one runs, as long as nothing more urgent comes.
TEST(Dispatcher, SaysWhatTheNextBatchBeginsWith) {
  Dispatcher dispatcher = twoSizes();
  dispatcher.submit({0, 1, 0, 0, never});
  EXPECT_FALSE(dispatcher.upcoming(0)); // nothing runs: it may start
  auto first = dispatcher.next(0).batch;
  ASSERT_TRUE(first);
  EXPECT_FALSE(dispatcher.upcoming(0)); // nothing waits
  for (RequestId id : {1, 2})
    dispatcher.submit({id, 3, 1, millisecond, never});
  auto upcoming = dispatcher.upcoming(millisecond);
  ASSERT_TRUE(upcoming);
  EXPECT_EQ(upcoming->instance, 0u);
  EXPECT_EQ(upcoming->slices, (std::vector<Slice>{{1, 0, 3}, {2, 0, 1}}));
  EXPECT_EQ(dispatcher.waiting(), 6u);
  dispatcher.submit({3, 1, 0, millisecond, never});
  EXPECT_EQ(dispatcher.upcoming(millisecond)->slices, (std::vector<Slice>{{3, 0, 1}, {1, 0, 3}}));
  dispatcher.cancel(1);
  std::vector<Slice> expected = dispatcher.upcoming(millisecond)->slices;
  dispatcher.finish(first->number, 0.01);
  EXPECT_EQ(dispatcher.next(10 * millisecond).batch->slices, expected);
}

// A request of more samples than the largest batch runs in several, and each of its samples once.
TEST(Dispatcher, DividesLargeRequests) {
  Dispatcher dispatcher(twoSizesTable(), {}, 3);
  dispatcher.submit({5, 9, 0, 0, never});
  std::vector<Slice> slices;
  while (auto batch = dispatcher.next(0).batch)
    slices.insert(slices.end(), batch->slices.begin(), batch->slices.end());
  EXPECT_EQ(slices, (std::vector<Slice>{{5, 0, 4}, {5, 4, 4}, {5, 8, 1}}));
}

// Smaller numbers first, and in the order of arrival among equals.
TEST(Dispatcher, TakesUrgentRequestsFirst) {
  Dispatcher dispatcher = twoSizes();
  dispatcher.submit({0, 1, 0, 0, never});
  auto running = dispatcher.next(0).batch;
  ASSERT_TRUE(running);
  for (auto [id, priority] : std::vector<std::pair<RequestId, uint32_t>>{{1, 2}, {2, 1}, {3, 2}, {4, 1}, {5, 2}})
    dispatcher.submit({id, 1, priority, 0, never});
  dispatcher.finish(running->number, 0.01);
  EXPECT_EQ(idsOf(dispatcher.next(0).batch->slices), (std::vector<RequestId>{2, 4, 1, 3}));
}

// A full queue says so at once; what runs does not count.
TEST(Dispatcher, RefusesWhatTheQueueHasNoPlaceFor) {
  Dispatcher dispatcher = twoSizes({.queueLimit = 3});
  EXPECT_EQ(dispatcher.submit({0, 4, 0, 0, never}), Admission::Full);
  EXPECT_EQ(dispatcher.submit({1, 3, 0, 0, never}), Admission::Queued);
  EXPECT_EQ(dispatcher.submit({2, 1, 0, 0, never}), Admission::Full);
  EXPECT_TRUE(dispatcher.next(0).batch);
  EXPECT_EQ(dispatcher.submit({3, 1, 0, 0, never}), Admission::Queued);
}

// What is being received has its place: others are refused for it, and it is not.
TEST(Dispatcher, KeepsPlacesForWhatIsAnnounced) {
  Dispatcher dispatcher = twoSizes({.queueLimit = 3});
  EXPECT_EQ(dispatcher.announce({0, 4, 0, 0, never}), Admission::Full);
  EXPECT_EQ(dispatcher.announce({1, 2, 0, 0, never}), Admission::Queued);
  EXPECT_EQ(dispatcher.announce({2, 2, 0, 0, never}), Admission::Full);
  EXPECT_EQ(dispatcher.submit({3, 2, 0, 0, never}), Admission::Full);
  EXPECT_EQ(dispatcher.submit({4, 1, 0, 0, never}), Admission::Queued);
  EXPECT_EQ(dispatcher.waiting(), 1u);
  EXPECT_EQ(dispatcher.submit({1, 2, 0, 0, never}), Admission::Queued);
  EXPECT_EQ(dispatcher.waiting(), 3u);
  EXPECT_EQ(dispatcher.announce({5, 1, 0, 0, never}), Admission::Full);
}

// Who does not come has no place: at once where somebody says so, else after a time. It may come later all the same.
TEST(Dispatcher, ForgetsWhatDoesNotCome) {
  Dispatcher dispatcher = twoSizes({.queueLimit = 3, .announcedFor = 20 * millisecond});
  dispatcher.announce({1, 3, 0, 0, never});
  dispatcher.withdraw(1);
  EXPECT_EQ(dispatcher.announce({2, 3, 0, 0, never}), Admission::Queued);
  EXPECT_EQ(dispatcher.announce({3, 1, 0, 20 * millisecond, never}), Admission::Full);
  EXPECT_EQ(dispatcher.announce({4, 1, 0, 21 * millisecond, never}), Admission::Queued);
  EXPECT_EQ(dispatcher.submit({2, 3, 0, 22 * millisecond, never}), Admission::Full);
  EXPECT_EQ(dispatcher.submit({2, 2, 0, 22 * millisecond, never}), Admission::Queued);
  // Nothing of it waits twice.
  dispatcher.withdraw(4);
  EXPECT_FALSE(dispatcher.cancel(4));
  EXPECT_EQ(dispatcher.waiting(), 2u);
}

// Requests whose deadline passes while they wait are dropped, and the dispatcher asks to be woken for that.
TEST(Dispatcher, DropsWhatIsTooLateBeforeItRuns) {
  Dispatcher dispatcher = twoSizes();
  dispatcher.submit({0, 1, 0, 0, never});
  auto running = dispatcher.next(0).batch;
  ASSERT_TRUE(running);
  dispatcher.submit({1, 1, 0, 0, 5 * millisecond});
  dispatcher.submit({2, 1, 0, 0, never});
  Action action = dispatcher.next(millisecond);
  EXPECT_TRUE(action.dropped.empty());
  EXPECT_EQ(action.wakeAt, 5 * millisecond + 1);
  EXPECT_EQ(dispatcher.next(action.wakeAt).dropped, (std::vector<RequestId>{1}));
  dispatcher.finish(running->number, 0.01);
  EXPECT_EQ(idsOf(dispatcher.next(10 * millisecond).batch->slices), (std::vector<RequestId>{2}));
}

// Once batches have been measured, what cannot be over in time is not begun, nor queued.
TEST(Dispatcher, KnowsWhatWillBeLate) {
  Dispatcher dispatcher = twoSizes();
  dispatcher.submit({0, 4, 0, 0, never});
  auto running = dispatcher.next(0).batch;
  ASSERT_TRUE(running);
  dispatcher.finish(running->number, 0.01);
  dispatcher.submit({1, 4, 0, 10 * millisecond, never});
  running = dispatcher.next(10 * millisecond).batch;
  EXPECT_EQ(dispatcher.submit({2, 1, 0, 10 * millisecond, 15 * millisecond}), Admission::Late);
  EXPECT_EQ(dispatcher.submit({3, 1, 0, 10 * millisecond, 25 * millisecond}), Admission::Queued);
}

// What was announced before goes before what is announced now, but not before what is there.
TEST(Dispatcher, KnowsWhatWillBeLateBeforeItIsThere) {
  Dispatcher dispatcher(measuredTable(), {});
  EXPECT_EQ(dispatcher.announce({0, 1, 0, 0, 5 * millisecond}), Admission::Late);
  for (RequestId id : {1, 2, 3, 4})
    EXPECT_EQ(dispatcher.announce({id, 1, 0, 0, 15 * millisecond}), Admission::Queued);
  EXPECT_EQ(dispatcher.announce({5, 1, 0, 0, 15 * millisecond}), Admission::Late);
  EXPECT_EQ(dispatcher.announce({6, 1, 0, 0, 25 * millisecond}), Admission::Queued);
  EXPECT_EQ(dispatcher.submit({7, 1, 0, 0, 15 * millisecond}), Admission::Queued);
}

// A batch that took long once, as on a machine that was busy, closes nothing for ever: there is a trial when nothing
// else is to be done, and its time counts.
TEST(Dispatcher, TriesWhatOnceTookLong) {
  BatchTable table = measuredTable();
  for (size_t size : {0, 1})
    table.measure(size, 1);
  Dispatcher dispatcher(table, {.maxDelay = 0});
  Time now = 0;
  auto deadline = [&] { return now + 15 * millisecond; };
  EXPECT_EQ(dispatcher.announce({0, 1, 0, now, deadline()}), Admission::Queued);
  EXPECT_EQ(dispatcher.announce({1, 1, 0, now, deadline()}), Admission::Late);
  dispatcher.withdraw(0);
  RequestId id = 2;
  int trials = 0;
  for (; dispatcher.getTable().seconds(0) > 0.015; ++trials) {
    EXPECT_EQ(dispatcher.submit({id++, 1, 0, now, deadline()}), Admission::Queued);
    EXPECT_EQ(dispatcher.submit({id++, 1, 0, now, deadline()}), Admission::Late);
    Action action = dispatcher.next(now);
    EXPECT_TRUE(action.dropped.empty());
    ASSERT_TRUE(action.batch);
    EXPECT_EQ(dispatcher.submit({id++, 1, 0, now, deadline()}), Admission::Late);
    now += 10 * millisecond;
    dispatcher.finish(action.batch->number, 0.01);
  }
  EXPECT_GT(trials, 1);
  EXPECT_LT(trials, 30);
  // Where a model is as slow as that, trials end.
  for (int i = 0; i != 20; ++i) {
    dispatcher.submit({id++, 1, 0, now, never});
    dispatcher.finish(dispatcher.next(now).batch->number, 1);
  }
  EXPECT_EQ(dispatcher.submit({id, 1, 0, now, deadline()}), Admission::Late);
}

// A server that has been idle tries what it would refuse, but nothing that is late whatever was measured.
TEST(Dispatcher, TriesOnceInAWhile) {
  Dispatcher dispatcher(measuredTable(), {.maxDelay = 0});
  Time now = 100'000 * millisecond;
  Time takes = nanosecondsOf(dispatcher.getTable().seconds(0));
  EXPECT_EQ(dispatcher.submit({0, 1, 0, now, now - 1}), Admission::Late);
  EXPECT_EQ(dispatcher.submit({1, 1, 0, now, now + takes / 100}), Admission::Late);
  EXPECT_EQ(dispatcher.submit({2, 1, 0, now, now + takes / 4}), Admission::Queued);
  dispatcher.finish(dispatcher.next(now).batch->number, static_cast<double>(takes) * 1e-9);
  now += 2 * takes;
  EXPECT_EQ(dispatcher.submit({3, 1, 0, now, now + takes / 4}), Admission::Late);
}

// A large request that has begun is carried through, whatever its deadline.
TEST(Dispatcher, NeverDropsWhatHasBegun) {
  Dispatcher dispatcher = twoSizes();
  dispatcher.submit({0, 8, 0, 0, 5 * millisecond});
  auto running = dispatcher.next(0).batch;
  ASSERT_TRUE(running);
  EXPECT_TRUE(dispatcher.next(6 * millisecond).dropped.empty());
  dispatcher.finish(running->number, 0.01);
  Action action = dispatcher.next(20 * millisecond);
  EXPECT_TRUE(action.dropped.empty());
  EXPECT_EQ(action.batch->slices, (std::vector<Slice>{{0, 4, 4}}));
}

// A client that has gone takes its request with it, as far as it waits.
TEST(Dispatcher, ForgetsCancelledRequests) {
  Dispatcher dispatcher = twoSizes();
  dispatcher.submit({0, 1, 0, 0, never});
  auto running = dispatcher.next(0).batch;
  ASSERT_TRUE(running);
  dispatcher.submit({1, 1, 0, 0, never});
  dispatcher.submit({2, 1, 0, 0, never});
  EXPECT_FALSE(dispatcher.cancel(0));
  EXPECT_TRUE(dispatcher.cancel(1));
  EXPECT_FALSE(dispatcher.cancel(1));
  dispatcher.finish(running->number, 0.01);
  EXPECT_EQ(idsOf(dispatcher.next(10 * millisecond).batch->slices), (std::vector<RequestId>{2}));
  EXPECT_EQ(dispatcher.waiting(), 0u);
}

// Random requests, cancels, deadlines and losses of instances: each request ends in one way, each sample runs once,
// batches keep to their size, their order and the number in flight.
TEST(Dispatcher, KeepsItsRulesUnderRandomRequests) {
  for (uint64_t seed = 0; seed != 40; ++seed) {
    std::mt19937_64 random(seed);
    auto below = [&](uint64_t end) { return random() % end; };
    const std::vector<std::vector<BatchSize>> tables = {{{1, 0.004}, {3, 0.006}, {8, 0.011}}, {{2, 0.012}, {5, 0.02}}};
    DispatcherOptions options{.maxDelay = Time(below(20)) * millisecond, .queueLimit = 40};
    Dispatcher dispatcher(options);
    struct Instance {
      const std::vector<BatchSize> &sizes;
      unsigned inFlight, running = 0;
      bool isLost = false;
    };
    std::vector<Instance> instances;
    for (size_t count = 1 + below(3); instances.size() != count;) {
      instances.push_back({tables[below(2)], unsigned(1 + below(3))});
      dispatcher.addInstance(tableOf(instances.back().sizes), instances.back().inFlight);
    }
    struct Known {
      Request request;
      uint64_t begun = 0, over = 0;
      bool isCancelled = false, isDropped = false, isLost = false;
    };
    std::map<RequestId, Known> known;
    std::multimap<Time, Batch> running;
    Time now = 0, wake = never;
    RequestId next = 0;
    for (int step = 0; step < 3000 || !running.empty() || dispatcher.waiting() != 0; ++step) {
      Time arrival = step < 3000 ? now + Time(below(6 * millisecond)) : never;
      Time end = running.empty() ? never : running.begin()->first;
      // Where all are lost there is nothing to wait for but that one comes back.
      if (std::ranges::all_of(instances, &Instance::isLost) && arrival == never && end == never && wake == never)
        wake = now + millisecond;
      now = std::min({arrival, end, std::max(now, wake)});
      ASSERT_NE(now, never);
      if (now == arrival) {
        Request request{next++, 1 + (below(4) ? 0 : below(12)), uint32_t(below(3)), now,
                        below(3) ? never : now + Time(below(60)) * millisecond};
        Admission admission = dispatcher.submit(request);
        if (admission == Admission::Queued)
          known[request.id] = {request};
        if (below(10) == 0 && !known.empty()) {
          auto victim = std::next(known.begin(), static_cast<std::ptrdiff_t>(below(known.size())));
          if (dispatcher.cancel(victim->first))
            victim->second.isCancelled = true;
        }
      } else if (now == end) {
        Batch batch = running.begin()->second;
        running.erase(running.begin());
        for (const Slice &slice : batch.slices)
          known.at(slice.id).over += slice.count;
        --instances[batch.instance].running;
        dispatcher.finish(batch.number, instances[batch.instance].sizes[batch.size].seconds);
      }
      if (size_t i = below(instances.size()); instances[i].isLost ? step >= 3000 || below(20) == 0 : below(100) == 0) {
        Instance &instance = instances[i];
        instance.isLost = !instance.isLost;
        if (instance.isLost)
          dispatcher.lose(i);
        else
          dispatcher.restore(i, tableOf(instance.sizes), instance.inFlight);
        instance.running = 0;
        for (auto at = running.begin(); at != running.end();) {
          if (at->second.instance != i) {
            ++at;
            continue;
          }
          for (const Slice &slice : at->second.slices) {
            Known &lost = known.at(slice.id);
            lost.isLost = true;
            lost.over += slice.count;
            dispatcher.cancel(slice.id);
          }
          at = running.erase(at);
        }
      }
      for (bool asks = true; asks;) {
        Action action = dispatcher.next(now);
        wake = action.wakeAt;
        asks = action.batch.has_value();
        for (RequestId id : action.dropped) {
          Known &dropped = known.at(id);
          EXPECT_EQ(dropped.begun, 0u) << "expected requests to be dropped before they run";
          EXPECT_FALSE(dropped.isCancelled || dropped.isDropped);
          EXPECT_LE(dropped.request.deadline, now + 20 * millisecond);
          dropped.isDropped = true;
        }
        if (!action.batch)
          break;
        Instance &instance = instances[action.batch->instance];
        const std::vector<BatchSize> &sizes = instance.sizes;
        EXPECT_FALSE(instance.isLost);
        uint64_t samples = 0;
        uint32_t priority = 0;
        for (const Slice &slice : action.batch->slices) {
          Known &taken = known.at(slice.id);
          EXPECT_FALSE(taken.isCancelled || taken.isDropped || taken.isLost);
          EXPECT_EQ(taken.begun, slice.first) << "expected each sample once, in order";
          EXPECT_GE(taken.request.priority, priority);
          priority = taken.request.priority;
          taken.begun += slice.count;
          samples += slice.count;
          EXPECT_TRUE(slice.first != 0 || taken.request.deadline >= now);
        }
        EXPECT_EQ(samples, action.batch->samples);
        EXPECT_GE(samples, 1u);
        EXPECT_LE(samples, sizes[action.batch->size].samples);
        running.emplace(now + Time(sizes[action.batch->size].seconds * 1e9 * double(1 + below(3)) / 2), *action.batch);
        EXPECT_LE(++instance.running, instance.inFlight);
      }
    }
    for (auto &[id, request] : known)
      EXPECT_TRUE(request.over == request.request.samples ||
                  ((request.isCancelled || request.isDropped || request.isLost) && request.over == request.begun))
          << "request " << id << " of seed " << seed;
  }
}

} // namespace
} // namespace cleave::runtime::serve
