// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs steps of an executor's entries on batches, and brings what they compute to the first process.

#ifndef CLEAVE_RUNTIME_TRAINING_BATCHRUNNER_H
#define CLEAVE_RUNTIME_TRAINING_BATCHRUNNER_H

#include "runtime/Executor.h"
#include "runtime/training/Dataset.h"

#include <deque>

namespace cleave::runtime {

/// What a run's parts share.
struct TrainContext {
  Plan plan;
  Executor *executor = nullptr;
  /// Those that run the plan together; null for one alone.
  Processes *processes = nullptr;
  std::vector<uint32_t> rankOfDevice;
};

/// What a step says of its batch. In other processes than the first all numbers mean nothing.
struct StepOutcome {
  /// The mean over the batch, what fills it up included.
  double loss = 0;
  std::optional<uint64_t> correct; ///< labels that were predicted; only where the loss is of labels
};

/// Steps of one entry, in order, some in flight. Their batches must live until they have finished.
class BatchRunner {
public:
  /// Status::Rejected unless the entry's outputs are those of a loss: "loss", one number, and perhaps "correct", one
  /// i64.
  static Expected<BatchRunner> create(const TrainContext &context, uint32_t entry, unsigned inFlight);

  bool isFull() const { return running.size() == outputs.size(); }
  bool isIdle() const { return running.empty(); }
  /// Whether the entry counts right predictions.
  bool counts() const { return correct.has_value(); }
  Error submit(const Batch &batch);
  /// Waits for the step that was submitted first.
  Expected<StepOutcome> finish();

private:
  BatchRunner(const TrainContext &context, uint32_t entry) : context(&context), entry(entry) {}

  const TrainContext *context;
  uint32_t entry;
  uint32_t loss = 0;
  std::optional<uint32_t> correct;
  std::vector<std::vector<HostTensor>> outputs; ///< by slot
  uint64_t submitted = 0, finished = 0;
  std::deque<Ticket> running;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_BATCHRUNNER_H
