// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The data that a run names on its command line.

#ifndef CLEAVE_RUNTIME_TRAINING_TRAININGSETS_H
#define CLEAVE_RUNTIME_TRAINING_TRAININGSETS_H

#include "runtime/training/TrainCommand.h"
#include "runtime/training/TrainingData.h"

namespace cleave::runtime {

struct TrainingSets {
  std::unique_ptr<TrainingData> training, evaluation; ///< null where the run needs none

  /// Reads the files of --data, where the run trains, and of --eval, where it has any, for the entries that train and
  /// evaluate; of several entries, each is for another length of sequences. Errors name the option or the file:
  /// Status::Usage for what does not go together, else as SequenceData and Dataset have it.
  static Expected<TrainingSets> read(const TrainOptions &options, const std::vector<const Entry *> &trained,
                                     const std::vector<const Entry *> &evaluated, bool trains);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_TRAININGSETS_H
