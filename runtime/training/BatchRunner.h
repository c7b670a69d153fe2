// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs steps of an executor's entries on batches, and brings what they compute to the first process.

#ifndef CLEAVE_RUNTIME_TRAINING_BATCHRUNNER_H
#define CLEAVE_RUNTIME_TRAINING_BATCHRUNNER_H

#include "runtime/Executor.h"
#include "runtime/training/TrainingData.h"

#include <deque>

namespace cleave::runtime {

/// What a run's parts share.
struct TrainContext {
  Plan plan;
  Executor *executor = nullptr;
  /// Those that run the plan together; null for one alone.
  Processes *processes = nullptr;
  std::vector<uint32_t> rankOfDevice;
  /// Numbers of the executor's entries that train and that evaluate, by bucket.
  std::vector<uint32_t> training = {0}, evaluating = {1};

  /// Whether a loss that trains was not a finite number, as the first process knows it. Told by who runs steps.
  bool hasDiverged = false;

  /// The signal that has asked the run to end (StopSignals.h), or `divergence`, the same in all processes between two
  /// steps; 0: neither.
  int stopSignal() const;
  /// No signal has this number.
  static constexpr int divergence = 1000;
};

/// What a step says of its batch. In other processes than the first all numbers mean nothing.
struct StepOutcome {
  /// The mean over the batch, what fills it up included; where labels are counted, over those.
  double loss = 0;
  std::optional<uint64_t> correct; ///< labels that were predicted; only where the loss is of labels
  std::optional<uint64_t> count;   ///< labels that the loss is a mean over; only where not all labels count
};

/// Steps of an entry, or of one for each bucket, in order, some in flight. Their batches must live until they have
/// finished.
class BatchRunner {
public:
  /// `entries`: numbers of the executor's entries, by bucket. Status::Rejected unless their outputs are those of a
  /// loss: "loss", one number, and perhaps "correct" and "count", one i64 each.
  static Expected<BatchRunner> create(const TrainContext &context, std::span<const uint32_t> entries,
                                      unsigned inFlight);

  bool isFull() const { return running.size() == inFlight; }
  bool isIdle() const { return running.empty(); }
  /// Whether right predictions are counted.
  bool counts() const { return entries.front().correct.has_value(); }
  /// Whether losses are means over labels that count.
  bool weighs() const { return entries.front().count.has_value(); }
  Error submit(const Batch &batch);
  /// Waits for the step that was submitted first.
  Expected<StepOutcome> finish();

private:
  /// An entry and where its steps' outputs go.
  struct Outputs {
    uint32_t entry = 0, loss = 0;
    std::optional<uint32_t> correct, count;
    std::vector<std::vector<HostTensor>> slots;
  };
  struct Running {
    Ticket ticket;
    uint32_t bucket;
    size_t slot;
  };

  BatchRunner(const TrainContext &context, unsigned inFlight) : context(&context), inFlight(inFlight) {}
  static Expected<Outputs> prepare(const Executor &executor, uint32_t index, unsigned inFlight);

  const TrainContext *context;
  unsigned inFlight;
  std::vector<Outputs> entries;
  uint64_t submitted = 0;
  std::deque<Running> running;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_BATCHRUNNER_H
