// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over batches, the last of which may be filled up.

#include "runtime/training/Evaluate.h"

#include "runtime/training/BatchLoader.h"

#include <algorithm>
#include <chrono>
#include <deque>

namespace cleave::runtime {
namespace {

/// Sums over samples.
struct Sums {
  double loss = 0, correct = 0;
  uint64_t labels = 0;

  /// A step on so many samples, what fills it up included.
  void add(const StepOutcome &outcome, double samples) {
    loss += outcome.loss * (outcome.count ? static_cast<double>(*outcome.count) : samples);
    correct += static_cast<double>(outcome.correct.value_or(0));
  }
};

} // namespace

Expected<std::optional<EvaluationResult>> evaluate(const TrainContext &context, const TrainingData &data,
                                                   unsigned inFlight) {
  auto begin = std::chrono::steady_clock::now();
  auto runner = BatchRunner::create(context, context.evaluating, inFlight);
  if (!runner)
    return runner.error();
  std::vector<Batch> slots;
  for (unsigned slot = 0; slot != inFlight + 1; ++slot) {
    auto batch = data.allocate();
    if (!batch)
      return batch.error();
    slots.push_back(std::move(*batch));
  }
  uint64_t size = context.executor->entry(context.evaluating.front()).samples;
  BatchLoader loader(data, data.all(), slots);
  Sums sums;
  auto finish = [&]() -> Error {
    auto outcome = runner->finish();
    if (!outcome)
      return outcome.error();
    loader.giveBack();
    sums.add(*outcome, static_cast<double>(size));
    return Error::success();
  };
  uint64_t missing = 0;
  for (;;) {
    bool mayStart = loader.left() != 0 && context.stopSignal() == 0;
    if (!mayStart && runner->isIdle())
      break;
    if (!mayStart || runner->isFull()) {
      if (Error error = finish())
        return error;
      continue;
    }
    const Batch &batch = loader.take();
    sums.labels += batch.labels;
    missing = size - batch.samples;
    if (Error error = runner->submit(batch))
      return error;
  }
  if (loader.left() != 0)
    return std::optional<EvaluationResult>();
  if (missing != 0 && !data.masks()) {
    uint64_t first = data.samples() - (size - missing);
    data.fill(slots.front(), 0, std::span(&first, 1));
    if (Error error = runner->submit(slots.front()))
      return error;
    auto outcome = runner->finish();
    if (!outcome)
      return outcome.error();
    sums.loss -= outcome->loss * static_cast<double>(missing);
    sums.correct -=
        static_cast<double>(outcome->correct.value_or(0)) * static_cast<double>(missing) / static_cast<double>(size);
  }
  EvaluationResult result;
  result.samples = data.samples();
  result.isText = data.isText();
  result.loss = sums.loss / static_cast<double>(runner->weighs() ? std::max<uint64_t>(1, sums.labels) : data.samples());
  if (runner->counts())
    result.accuracy = sums.correct / static_cast<double>(std::max<uint64_t>(1, sums.labels));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::optional(result);
}

} // namespace cleave::runtime
