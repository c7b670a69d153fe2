// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan on its devices, ready to run batches: an executor, tensors for the batches in work, and what batches took when
// it was loaded. A model has one, or several on devices of their own.

#ifndef CLEAVE_RUNTIME_SERVE_MODELINSTANCE_H
#define CLEAVE_RUNTIME_SERVE_MODELINSTANCE_H

#include "runtime/serve/BatchBuffers.h"
#include "runtime/serve/DividedExecutor.h"
#include "runtime/serve/RequestTrace.h"

#include <atomic>

namespace cleave::runtime::serve {

/// What of the machine an instance has: see ExecutorOptions.
struct InstancePlace {
  unsigned threadsBefore = 0, threadsBehind = 0, devicesBefore = 0;
};

/// Used by one thread at a time, but for `stepsOver`.
class ModelInstance {
public:
  /// A batch in work.
  struct Work {
    std::unique_ptr<BatchBuffers> buffers;
    size_t size = 0; ///< as an index into the plan's table
    Ticket ticket = 0;
    int64_t begin = 0, gathered = 0, computed = 0, end = 0; ///< nanoseconds
    bool isTraced = false;
    Trace::StepOf step; ///< where it is traced
  };

  /// Makes the executor and runs every size, so that nothing is left to be done when the first batch comes.
  /// `inFlight`: batches at a time; 0: as many as the plan has stages. `records`: batches may be traced. `stepOver` is
  /// called by any thread when a batch is over or `loss` has changed, and must not call this. `processes`, which must
  /// outlive it, run the plan together where they can; null: there is one. Errors: the executor's.
  static Expected<std::unique_ptr<ModelInstance>> load(std::shared_ptr<const ServedPlan> served,
                                                       const InstancePlace &place, unsigned inFlight, bool records,
                                                       std::function<void()> stepOver,
                                                       ServingProcesses *processes = nullptr);

  const std::shared_ptr<const ServedPlan> &getServed() const { return served; }
  /// Predicted seconds, and those of the first runs.
  const BatchTable &getTable() const { return table; }
  unsigned getInFlight() const { return inFlight; }
  const std::vector<DeviceMemory> &getMemory() const { return memory; }

  /// Samples that the next batch may begin with, while others are in work: whether they have been brought together, and
  /// doing that.
  bool isGathered(const std::vector<JobSlice> &slices) const { return idle.back()->isGathered(slices); }
  void gatherAhead(const std::vector<JobSlice> &slices) { idle.back()->gatherAhead(slices); }
  /// Brings the slices' samples together and starts a batch of the size. At most `inFlight` at a time, but for those
  /// that have been waited for.
  Expected<Work> start(size_t size, const std::vector<JobSlice> &slices);
  /// Batches that are over and have not been ended. They are over in the order in which they were started.
  uint64_t stepsOver() const { return over; }
  /// What has become of a process that it needs, whether or not a batch is in work; success while it is there.
  Error loss() const { return divided ? divided->loss() : Error::success(); }
  /// Waits for the batch; the error that it failed with.
  Error wait(Work &work);
  /// Hands out the results of a batch that is over.
  void handOut(Work &work, const std::vector<JobSlice> &slices) const;
  /// Adds what the devices did in a batch that was traced.
  void copyTrace(const Work &work, Trace &target) const { trace->copyStep(work.step, target); }
  /// The batch is of no use any more.
  void giveBack(Work &work);

private:
  ModelInstance(std::shared_ptr<const ServedPlan> served, unsigned inFlight, bool records);
  Error prepare(const InstancePlace &place, std::function<void()> stepOver, ServingProcesses *processes);
  Error runOnce(size_t size, double &seconds);

  const std::shared_ptr<const ServedPlan> served;
  const unsigned inFlight;
  BatchTable table;
  const std::shared_ptr<Trace> trace; ///< null: none
  /// One more than batches are in work, so that the next one starts before the results of the last are handed out. The
  /// next batch has the last of them.
  std::vector<std::unique_ptr<BatchBuffers>> idle;
  std::vector<uint64_t> steps; ///< by size, that were submitted
  std::atomic<uint64_t> over = 0;
  std::vector<DeviceMemory> memory;
  // One of them is there; it ends before what its steps use.
  std::unique_ptr<Executor> executor;
  std::unique_ptr<DividedExecutor> divided;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_MODELINSTANCE_H
