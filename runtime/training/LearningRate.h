// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The learning rate of a run: the plan's, unless a checkpoint or the command line has another.

#ifndef CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H
#define CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H

#include "runtime/ParameterSource.h"
#include "runtime/training/Checkpoint.h"
#include "runtime/training/RateSchedule.h"

namespace cleave::runtime {

class LearningRate {
public:
  /// What the user asked for: a rate, and a schedule as text; either may be missing.
  struct Request {
    std::optional<double> rate;
    std::string schedule;

    bool isGiven() const { return rate || !schedule.empty(); }
  };

  /// That with which the run of a plan goes on from a checkpoint, null if from none. Status::Usage if the request is
  /// for a plan whose steps read no rate.
  static Expected<LearningRate> read(const PlanContents &plan, const Checkpoint *checkpoint, const Request &request);

  /// Gives the plan's parameters these values. The object must outlive `source`, where it is.
  void addTo(ValueSource &source) const;
  /// What a checkpoint needs, so that a run that goes on from it has the same; nothing where the plan has no rate.
  Expected<std::vector<NamedTensor>> tensors() const;
  /// The rate of the run's step of that number, from 1; nothing where the plan has none.
  std::optional<double> ofStep(uint64_t step) const;

private:
  std::optional<RateSchedule> schedule;
  unsigned updatesPerStep = 1; ///< of the optimizer
};

/// Whether a checkpoint's tensor is one of a schedule's numbers.
bool isOfLearningRate(std::string_view name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H
