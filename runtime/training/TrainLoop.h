// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Epochs, steps, evaluation, and when a checkpoint is due.

#ifndef CLEAVE_RUNTIME_TRAINING_TRAINLOOP_H
#define CLEAVE_RUNTIME_TRAINING_TRAINLOOP_H

#include "runtime/training/Checkpoint.h"
#include "runtime/training/Evaluate.h"

namespace cleave::runtime {

/// When a run ends, counted from its beginning, whatever checkpoint it goes on from, and what it does on the way.
struct TrainSchedule {
  uint64_t epochs = 1;
  std::optional<uint64_t> steps;
  /// Steps from one checkpoint to the next; 0: one at the end of each epoch.
  uint64_t checkpointEvery = 0;
  /// Whether checkpoints are kept.
  bool keepsCheckpoints = false;
  unsigned inFlight = 2;
};

/// What an epoch, or the part of it that this run has done, came to.
struct EpochResult {
  uint64_t epoch = 0; ///< counted from 1
  /// Since the epoch's beginning, also before the checkpoint from which the run goes on.
  uint64_t steps = 0;
  double loss = 0;     ///< the mean of its steps', or of their labels' where those are counted
  bool isText = false; ///< TrainingData::isText
  std::optional<double> accuracy;
  std::optional<EvaluationResult> evaluation;
  /// Of this run's steps of the epoch, without evaluation and checkpoints.
  double seconds = 0, samplesPerSecond = 0;
};

/// Who wants to know.
class TrainObserver {
public:
  virtual ~TrainObserver() = default;
  /// A step has finished; the epoch has `stepsOfEpoch`.
  virtual void onStep(const TrainPosition &position, const StepOutcome &outcome, uint64_t stepsOfEpoch) = 0;
  virtual void onEpoch(const EpochResult &result) = 0;
  /// A replica has failed, and the others go on without it. Called as steps are.
  virtual void onLostReplica(const Error &error) = 0;
  /// A checkpoint is due; no step is in flight.
  virtual Error onCheckpoint(const TrainPosition &position) = 0;
};

/// Trains from a position on, step by step on all devices of the plan.
class TrainLoop {
public:
  /// Evaluates after each epoch if there is `evaluation`. All must outlive the loop.
  TrainLoop(const TrainContext &context, const TrainingData &data, const TrainingData *evaluation,
            const TrainSchedule &schedule, TrainObserver &observer)
      : context(context), data(data), evaluation(evaluation), schedule(schedule), observer(observer) {}

  virtual ~TrainLoop() = default;
  TrainLoop(const TrainLoop &) = delete;
  TrainLoop &operator=(const TrainLoop &) = delete;

  /// Trains to the end of the schedule, or to that of the steps that have begun when a signal asks to end
  /// (TrainContext::stopSignal), and has a checkpoint there, unless it has diverged.
  Error run(const TrainPosition &from);
  /// The signal because of which something was left undone; 0: everything was done.
  int stopSignal() const { return stoppedBy; }
  const TrainPosition &at() const { return position; }

protected:
  /// The steps that are left of the epoch, or of the schedule: sets `seconds`, `stepsOfEpoch`, `epochIsOver` and what
  /// outcomes have, and has checkpoints between them where they are due.
  virtual Error runSteps();
  /// Puts all that steps have learned into the context's parameters. Called where somebody is to read them: before an
  /// evaluation and a checkpoint, and at the end.
  virtual Error settle() { return Error::success(); }
  /// Samples of a step.
  virtual uint64_t batchSize() const { return context.executor->entry(context.training.front()).samples; }

  /// To be asked where something is left to do, which is not done then.
  bool isStopped();
  bool isDue(uint64_t steps) const { return schedule.checkpointEvery != 0 && steps % schedule.checkpointEvery == 0; }
  Error checkpoint();
  /// Adds a step's outcome to the position, and tells the observer.
  void count(const StepOutcome &outcome, uint64_t samples, uint64_t labels);

  const TrainContext &context;
  const TrainingData &data;
  const TrainingData *const evaluation;
  TrainSchedule schedule;
  TrainObserver &observer;
  TrainPosition position;
  uint64_t stepsOfEpoch = 0;
  std::optional<uint64_t> lastCheckpoint; ///< its step
  bool countsCorrect = false, weighsLabels = false;
  bool epochIsOver = false; ///< no batch of it is left
  int stoppedBy = 0;
  double seconds = 0; ///< in which the epoch's steps ran

private:
  bool isOver() const;
  Error trainEpoch();
  Error finishStep(BatchRunner &runner, const Batch &batch);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_TRAINLOOP_H
