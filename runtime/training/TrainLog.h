// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lines about the loss while a run trains, for people and as CSV.

#ifndef CLEAVE_RUNTIME_TRAINING_TRAINLOG_H
#define CLEAVE_RUNTIME_TRAINING_TRAINLOG_H

#include "runtime/training/TrainLoop.h"

#include <chrono>
#include <fstream>

namespace cleave::runtime {

/// Loss, learning rate, throughput and the time that is left, every few steps.
class TrainLog {
public:
  /// Lines go to `out` every `every` steps, where that is not 0; rows to the file, of every step without `every`.
  TrainLog(std::ostream &out, uint64_t every) : out(out), every(every) {}
  /// Adds to what the file has where a run goes on, and begins it anew otherwise. Status::Failure if it cannot be
  /// written.
  Error open(const std::string &path, bool goesOn);
  /// A step has finished, of `stepsInAll` that the run makes. `learningRate`: nothing where the plan does not say it.
  Error onStep(const TrainPosition &at, double loss, std::optional<double> learningRate, uint64_t stepsInAll,
               uint64_t batch);

private:
  using Clock = std::chrono::steady_clock;
  std::ostream &out;
  const uint64_t every;
  std::string path;
  std::ofstream file;
  uint64_t lastStep = 0;
  Clock::time_point begin = Clock::now(), last = begin;
  std::optional<uint64_t> firstStep;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_TRAINLOG_H
