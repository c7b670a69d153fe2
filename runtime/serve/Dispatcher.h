// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides when which requests of one model run together. It has no thread, socket or clock of its own: whoever owns it
// tells it what happened and when, and asks what to do.
//
// Batches are chosen by BatchPolicy for the rate at which samples arrive at present and for the times that batches take
// at present. Where arrivals are not random, as when clients wait for answers before they ask again, a policy may wait
// for what does not come: nobody waits longer than `maxDelay`, nor than `patience` usual times between arrivals.
//
// Instances of a model, on devices of their own, take batches from one queue. A batch goes to the free instance on
// which it would end first, which is the one with the least work left where all are equally fast. A slow one gets
// nothing that faster ones, though busy, would have done before it.

#ifndef CLEAVE_RUNTIME_SERVE_DISPATCHER_H
#define CLEAVE_RUNTIME_SERVE_DISPATCHER_H

#include "runtime/serve/ArrivalRate.h"
#include "runtime/serve/DispatchedInstance.h"

namespace cleave::runtime::serve {

struct DispatcherOptions {
  /// A request that has waited so long starts as soon as a batch can; nanoseconds.
  Time maxDelay = 5'000'000;
  /// Samples that may wait or are announced; a request that would make them more is refused.
  uint64_t queueLimit = 4096;
  /// How long an announced request keeps its place while it does not come; nanoseconds.
  Time announcedFor = 1'000'000'000;
};

/// A batch to start: `size` is an index into the instance's table, whose samples may be more than those of the slices.
struct Batch {
  uint64_t number = 0;
  size_t instance = 0;
  size_t size = 0;
  std::vector<Slice> slices;
  uint64_t samples = 0; ///< of the slices together
};

/// What became of a request that asks to be queued.
enum class Admission {
  Queued,
  Full, ///< the queue has no place for it
  Late, ///< it would not be over by its deadline
};

/// What to do now.
struct Action {
  /// Requests that cannot be over by their deadline any more, none of whose samples has run.
  std::vector<RequestId> dropped;
  std::optional<Batch> batch;
  /// When to ask again at the latest, if nothing happens before; `never` where nothing waits for time to pass.
  Time wakeAt = never;
};

class Dispatcher {
public:
  /// Without instances; none of those that are added starts anything before `next`.
  explicit Dispatcher(DispatcherOptions options) : options(options) {}
  /// Of one instance.
  Dispatcher(BatchTable table, DispatcherOptions options, unsigned inFlight = 1) : options(options) {
    addInstance(std::move(table), inFlight);
  }

  /// Another instance that runs batches, `inFlight` of them at a time: more than one where its devices form a pipeline.
  /// Its number, counted from 0.
  size_t addInstance(BatchTable table, unsigned inFlight = 1);
  /// It runs nothing any more: its batches are over, and no other starts there. What waits goes on waiting.
  void lose(size_t instance) { instances[instance].lose(); }
  /// A lost one is there again.
  void restore(size_t instance, BatchTable table, unsigned inFlight = 1) {
    instances[instance] = {std::move(table), inFlight};
  }

  /// A request of at least `request.samples` samples is on its way: whether there would be a place for it, and whether
  /// it can be over by its deadline after what waits and what was announced before. The place is kept until the request
  /// is submitted or withdrawn, or has not come for `announcedFor`. `request.arrival` is the present time.
  Admission announce(const Request &request);
  void withdraw(RequestId id) { announced.remove(id); }
  /// Takes a request, whether or not it was announced, or refuses it at once. `request.arrival` is the present time.
  Admission submit(const Request &request);
  /// Forgets what waits of a request, whose client has gone; whether anything did.
  bool cancel(RequestId id) { return queue.remove(id); }
  /// What to do at this time. Ask again until there is no batch.
  Action next(Time now);
  /// What the next batch begins with, as far as can be said now: the first samples that wait, as many as the fastest
  /// size has, and the busy instance that is free first. Nothing where nothing waits, or no instance is busy.
  struct Upcoming {
    size_t instance = 0;
    std::vector<Slice> slices;
  };
  std::optional<Upcoming> upcoming(Time now) const;
  /// Computes what the choice of the next batch will need by present rates and times, which takes a millisecond or so.
  void prepare(Time now);
  /// The batch of that number is over; `seconds` is what it took. Without a measurement (it failed): 0.
  void finish(uint64_t number, double seconds);

  const BatchTable &getTable(size_t instance = 0) const { return instances[instance].table; }
  uint64_t waiting() const { return queue.samples(); }
  /// Batches, of all instances.
  size_t running() const;

private:
  /// Samples a second of all instances that are there.
  double capacity() const;
  /// The size for what waits, where it has not run yet: what was predicted of it may be wrong.
  std::optional<size_t> untried(const DispatchedInstance &instance) const;
  /// Whether the queue has a place for it beside what waits and what is announced.
  bool hasPlace(const Request &request);
  /// When a request begins and is over.
  struct Expected {
    Time begin = 0, end = 0;
  };
  Expected expected(const Request &request, uint64_t samplesBefore) const;
  bool isLate(const Request &request, uint64_t samplesBefore) const;
  /// Whether it would wait in vain, while more arrives than can be done.
  bool waitsTooLong(const Request &request, uint64_t samplesBefore) const;
  bool isTrial(const Request &request) const;
  /// What a batch of the smallest size takes at least, where that has been measured.
  Time leastTime() const;
  Time latestStart(const DispatchedInstance &instance) const;
  /// The instance to start a batch on now, if any; else when to look again.
  std::optional<size_t> chooseInstance(Time now, Time &wakeAt) const;
  const BatchPolicy &policyOf(DispatchedInstance &instance, Time now) const;
  /// The size to start there now, if any; else when to look again.
  std::optional<size_t> chooseSize(DispatchedInstance &instance, Time now, Time &wakeAt);
  Batch start(size_t instance, size_t size, Time now);

  DispatcherOptions options;
  RequestQueue queue;
  RequestQueue announced; ///< deadlines here: until when a place is kept
  ArrivalRate arrivals;
  Time lastArrival = never;
  Time lastStart = 0; ///< of a batch
  uint64_t nextNumber = 0;
  std::vector<DispatchedInstance> instances;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_DISPATCHER_H
