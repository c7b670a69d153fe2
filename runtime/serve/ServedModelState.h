// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a served model consists of: requests, the dispatcher, instances, and the thread that brings them together. Of
// concern to ServedModel alone.

#ifndef CLEAVE_RUNTIME_SERVE_SERVEDMODELSTATE_H
#define CLEAVE_RUNTIME_SERVE_SERVEDMODELSTATE_H

#include "runtime/Clock.h"
#include "runtime/serve/InstanceRecovery.h"
#include "runtime/serve/ServedModel.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace cleave::runtime::serve {

struct ServedModel::State {
  State(ServedModel &model, const ServedModelOptions &options)
      : model(model), options(options), dispatcher({.maxDelay = options.maxDelay, .queueLimit = options.queueLimit}),
        instances(std::max(1u, options.instances)) {}

  ~State() {
    {
      std::lock_guard lock(mutex);
      isDraining = isEnding = true;
    }
    changed.notify_all();
    if (worker.joinable())
      worker.join();
    for (Instance &instance : instances)
      if (instance.recovery.joinable())
        instance.recovery.join();
  }

  /// A job that waits or runs. Its samples from number `begun` on wait.
  struct Known {
    std::shared_ptr<InferenceJob> job;
    uint64_t begun = 0;
    bool isCancelled = false;
  };
  struct Running {
    Batch batch;
    std::vector<JobSlice> slices;
    ModelInstance::Work work;
  };
  /// A batch that is over, whose results have not been handed out.
  struct Ended {
    Running batch;
    Error error;
  };
  struct Instance {
    std::unique_ptr<ModelInstance> running; ///< null: it is being loaded again, or cannot be
    size_t plan = 0;
    std::deque<Running> batches;
    Error lostBy; ///< success: it runs
    int64_t lostAt = 0;
    unsigned lostInVain = 0; ///< losses since it has last answered anything
    std::thread recovery;    ///< joined when `recovered` is there
    std::optional<RecoveredInstance> recovered;
    uint64_t numBatches = 0, losses = 0, recoveries = 0;
    int64_t lostTime = 0; ///< nanoseconds

    bool isOver() const { return running && running->stepsOver() != 0 && !batches.empty(); }
  };

  Error prepare();
  Expected<std::unique_ptr<ModelInstance>> load(const InstanceChoice &choice);
  void run();
  std::vector<Ended> takeEnded(std::unique_lock<std::mutex> &lock);
  bool recover(std::unique_lock<std::mutex> &lock);
  bool gatherAhead(std::unique_lock<std::mutex> &lock);
  void start(Batch batch, std::unique_lock<std::mutex> &lock);
  void addToTraces(const Running &over);
  Ended endOldest(Instance &instance, std::unique_lock<std::mutex> &lock);
  void handOut(Ended &ended, std::unique_lock<std::mutex> &lock);
  void endSlices(const Running &over, const Error &error, std::unique_lock<std::mutex> &lock);
  void drop(RequestId id, Outcome outcome, std::unique_lock<std::mutex> &lock);
  void lose(Instance &instance, const Error &error);
  void beginRecovery(Instance &instance);
  void endRecovery(Instance &instance, std::unique_lock<std::mutex> &lock);
  void fail(const Error &error, std::unique_lock<std::mutex> &lock);
  std::optional<Outcome> unavailable(InferenceJob &job) const;
  Request requestOf(InferenceJob &job, Time at);
  void report(const std::string &text) const {
    if (options.report)
      options.report(text);
  }
  size_t numberOf(const Instance &instance) const { return static_cast<size_t>(&instance - instances.data()); }
  bool hasInstance() const {
    return std::ranges::any_of(instances,
                               [](const Instance &instance) { return instance.running && !instance.lostBy; });
  }
  /// Calls `done` without the lock.
  void finish(const std::shared_ptr<InferenceJob> &job, Outcome outcome, std::unique_lock<std::mutex> &lock) {
    job->times.end = now();
    model.statistics.countRequest(*job, outcome);
    lock.unlock();
    job->done(outcome);
    lock.lock();
  }

  ServedModel &model;
  const ServedModelOptions options;

  mutable std::mutex mutex;
  std::condition_variable changed;
  Dispatcher dispatcher;
  std::map<RequestId, Known> jobs;
  RequestId nextId = 0;
  bool isDraining = false, isEnding = false;
  Error failed;
  std::vector<Instance> instances; ///< by the dispatcher's numbers
  std::thread worker;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_SERVEDMODELSTATE_H
