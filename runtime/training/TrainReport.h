// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a training run says: lines while it runs, and JSON at its end.

#ifndef CLEAVE_RUNTIME_TRAINING_TRAINREPORT_H
#define CLEAVE_RUNTIME_TRAINING_TRAINREPORT_H

#include "runtime/training/SequenceData.h"
#include "runtime/training/TrainLoop.h"
#include "runtime/training/asynchronous/VersionKeeper.h"

#include <chrono>
#include <iosfwd>

namespace cleave::runtime {

struct TrainReport {
  uint64_t steps = 0; ///< of this run
  /// The step of the checkpoint from which the run has gone on.
  std::optional<uint64_t> resumedFrom;
  uint64_t batch = 0, samples = 0; ///< of a step, and in the data
  /// Of text, how it is divided over lengths.
  std::optional<SequenceSummary> sequences;
  std::vector<EpochResult> epochs;
  /// Of a run that only evaluates.
  std::optional<EvaluationResult> evaluation;
  std::vector<double> losses; ///< by step, where they are wanted
  bool hasLosses = false;
  double seconds = 0;
  std::vector<DeviceMemory> devices;
  /// Of replicas: how many, how old what they worked with was, how many versions of the parameters there were, and how
  /// many bytes of versions and gifts were exchanged.
  uint32_t replicas = 0;
  Staleness staleness;
  uint64_t versions = 0, exchanged = 0;

  void print(std::ostream &out) const;
  void writeJson(std::ostream &out) const;
};

/// One line about an epoch.
void printEpoch(std::ostream &out, const EpochResult &result);
/// One line about an evaluation by itself.
void printEvaluation(std::ostream &out, const EvaluationResult &result);

/// A line on a terminal that is written over, some times a second.
class TrainProgress {
public:
  /// Without a terminal nothing is written.
  TrainProgress(std::ostream &out, bool isTerminal) : out(out), isTerminal(isTerminal) {}
  void onStep(const TrainPosition &position, const StepOutcome &outcome, uint64_t stepsOfEpoch, uint64_t batch);
  /// Takes the line away.
  void clear();
  /// Shows perplexities from now on (TrainingData::isText).
  void showPerplexity() { isText = true; }

private:
  using Clock = std::chrono::steady_clock;
  std::ostream &out;
  const bool isTerminal;
  bool shown = false, isText = false;
  Clock::time_point lastShown;
  uint64_t lastSteps = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_TRAINREPORT_H
