// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keeps steps in flight, but for the places where the state is to be read.

#include "runtime/training/TrainLoop.h"

#include "runtime/training/BatchLoader.h"
#include "runtime/training/Stopwatch.h"

#include <algorithm>
#include <deque>

namespace cleave::runtime {

bool TrainLoop::isOver() const {
  return position.epoch >= schedule.epochs || (schedule.steps && position.steps >= *schedule.steps);
}

bool TrainLoop::isStopped() {
  if (stoppedBy == 0)
    stoppedBy = context.stopSignal();
  return stoppedBy != 0;
}

Error TrainLoop::run(const TrainPosition &from) {
  position = from;
  // A run that goes on has a checkpoint where it begins.
  lastCheckpoint = from.steps == 0 ? std::nullopt : std::optional(from.steps);
  while (!isOver() && !isStopped())
    if (Error error = trainEpoch())
      return error;
  // The last good checkpoint stays the last one.
  if (stoppedBy == TrainContext::divergence)
    return Error::success();
  if (Error error = settle())
    return error;
  return lastCheckpoint == position.steps ? Error::success() : checkpoint();
}

Error TrainLoop::checkpoint() {
  if (schedule.keepsCheckpoints)
    if (Error error = settle())
      return error;
  lastCheckpoint = position.steps;
  return observer.onCheckpoint(position);
}

Error TrainLoop::trainEpoch() {
  uint64_t before = position.steps;
  seconds = 0;
  if (Error error = runSteps())
    return error;
  EpochResult result;
  result.epoch = position.epoch + 1;
  result.steps = position.epochSteps;
  result.isText = data.isText();
  uint64_t weight = weighsLabels ? position.labels : position.epochSteps;
  result.loss = weight == 0 ? 0 : position.lossSum / static_cast<double>(weight);
  if (countsCorrect)
    result.accuracy =
        static_cast<double>(position.correct) / static_cast<double>(std::max<uint64_t>(1, position.labels));
  result.seconds = seconds;
  if (seconds > 0)
    result.samplesPerSecond = static_cast<double>((position.steps - before) * batchSize()) / seconds;
  if (evaluation && !isStopped()) {
    if (Error error = settle())
      return error;
    auto evaluated = evaluate(context, *evaluation, schedule.inFlight);
    if (!evaluated)
      return evaluated.error();
    result.evaluation = *evaluated;
    if (!*evaluated)
      (void)isStopped();
  }
  observer.onEpoch(result);
  if (!epochIsOver)
    return Error::success(); // the last step of all was inside the epoch
  position.epoch += 1;
  position.sample = position.epochSteps = position.correct = position.labels = 0;
  position.lossSum = 0;
  // The position has moved on, so that a checkpoint of the same step is not this one.
  return schedule.checkpointEvery == 0 ? checkpoint() : Error::success();
}

Error TrainLoop::runSteps() {
  auto runner = BatchRunner::create(context, context.training, schedule.inFlight, context.ends);
  if (!runner)
    return runner.error();
  countsCorrect = runner->counts();
  weighsLabels = runner->weighs();
  auto order = data.rest(position.seed, position.epoch, position.sample);
  if (!order)
    return order.error();
  std::vector<Batch> slots;
  for (unsigned slot = 0; slot != runner->mostBatches() + 1; ++slot) {
    auto batch = data.allocate();
    if (!batch)
      return batch.error();
    slots.push_back(std::move(*batch));
  }
  stepsOfEpoch = position.epochSteps + order->batches.size();
  BatchLoader loader(data, std::move(*order), slots);
  std::deque<const Batch *> running;
  uint64_t submitted = position.steps;
  Stopwatch stopwatch;
  double paused = 0;
  for (;;) {
    bool mayStart = loader.left() != 0 && (!schedule.steps || submitted < *schedule.steps) && !isStopped();
    // What a checkpoint holds is not to be changed by steps behind it.
    bool waits = !running.empty() && (runner->isFull() || !mayStart || isDue(submitted));
    if (waits) {
      // Where training pauses, nothing is left in a pipeline.
      if (!mayStart || isDue(submitted))
        if (Error error = runner->drain())
          return error;
      if (Error error = finishStep(*runner, *running.front()))
        return error;
      running.pop_front();
      loader.giveBack();
      if (running.empty() && isDue(position.steps)) {
        Stopwatch pause;
        if (Error error = checkpoint())
          return error;
        paused += pause.seconds();
      }
      continue;
    }
    if (!mayStart)
      break;
    running.push_back(&loader.take());
    if (Error error = runner->submit(*running.back()))
      return error;
    ++submitted;
  }
  seconds = stopwatch.seconds() - paused;
  epochIsOver = loader.left() == 0;
  return Error::success();
}

Error TrainLoop::finishStep(BatchRunner &runner, const Batch &batch) {
  auto outcome = runner.finish();
  if (!outcome)
    return outcome.error();
  count(*outcome, batch.samples, batch.labels);
  return Error::success();
}

void TrainLoop::count(const StepOutcome &outcome, uint64_t samples, uint64_t labels) {
  position.steps += 1;
  position.sample += samples;
  position.epochSteps += 1;
  position.lossSum += outcome.loss * (outcome.count ? static_cast<double>(*outcome.count) : 1);
  position.correct += outcome.correct.value_or(0);
  position.labels += labels;
  observer.onStep(position, outcome, stepsOfEpoch);
}

} // namespace cleave::runtime
