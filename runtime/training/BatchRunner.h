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
  /// Those that fill and drain a pipeline that goes on from step to step, where the plan trains with one: `fill` takes
  /// the first batch and gives nothing, the entry that trains takes one and gives what comes of the one before, and
  /// `drain` takes none and gives what comes of the last.
  struct PipelineEnds {
    uint32_t fill, drain;
  };
  std::optional<PipelineEnds> ends;

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

/// The position of the output of that name, which is one number, in floating point or an integer; nothing where there
/// is none. Status::Rejected where it is anything else.
Expected<std::optional<uint32_t>> findNumber(const Entry &entry, const std::string &name, bool floating);

/// Steps of an entry, or of one for each bucket, in order, some in flight. Their batches must live until they have
/// finished.
class BatchRunner {
public:
  /// `entries`: numbers of the executor's entries, by bucket. Status::Rejected unless their outputs are those of a
  /// loss: "loss", one number, and perhaps "correct" and "count", one i64 each. `ends`: where the entry is one of a
  /// pipeline that goes on from step to step; then a batch more is in flight.
  static Expected<BatchRunner> create(const TrainContext &context, std::span<const uint32_t> entries, unsigned inFlight,
                                      std::optional<TrainContext::PipelineEnds> ends = {});

  bool isFull() const { return batches == mostBatches(); }
  bool isIdle() const { return batches == 0; }
  /// The most batches that are in flight.
  unsigned mostBatches() const { return inFlight + (ends ? 1 : 0); }
  /// Whether right predictions are counted.
  bool counts() const { return entries.front().correct.has_value(); }
  /// Whether losses are means over labels that count.
  bool weighs() const { return entries.front().count.has_value(); }
  Error submit(const Batch &batch);
  /// Lets the last batch finish with no batch behind it. Nothing, where none waits for another one.
  Error drain();
  /// Waits for the step that was submitted first. A pipeline must be full or drained.
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
    /// Of `entries`; nothing where no step ends with it.
    std::optional<uint32_t> entry;
    size_t slot;
  };

  BatchRunner(const TrainContext &context, unsigned inFlight, std::optional<TrainContext::PipelineEnds> ends)
      : context(&context), inFlight(inFlight), ends(ends) {}
  Error submit(uint32_t executed, std::optional<uint32_t> entry, const std::vector<HostTensor> &inputs);
  Error waitFor(const Running &step) const;
  static Expected<Outputs> prepare(const Executor &executor, uint32_t index, unsigned numSlots);

  const TrainContext *context;
  unsigned inFlight;
  std::optional<TrainContext::PipelineEnds> ends;
  std::vector<Outputs> entries;
  uint64_t submitted = 0;
  /// Whose steps have not finished.
  unsigned batches = 0;
  /// Whether a batch is in the pipeline that waits for the next one.
  bool isFilled = false;
  std::deque<Running> running;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_BATCHRUNNER_H
