// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave bench --predictions`: what the simulator predicts of plans beside what they take on this host.

#ifndef CLEAVE_TOOLS_CLEAVE_PREDICTIONS_H
#define CLEAVE_TOOLS_CLEAVE_PREDICTIONS_H

#include "tools/cleave/Diagnostics.h"

namespace cleave::tool {

struct PredictionOptions {
  /// ONNX files, or standard models with their numbers: "alexnet", "gpt:layers=2,hidden=256". None: a choice of the
  /// zoo.
  std::vector<std::string> models;
  /// Names of the ways to compile them; none: all, or those chosen for the zoo's models.
  std::vector<std::string> plans;
  /// Steps of training instead of inference.
  bool train = false;
  /// Each plan is measured in so many rounds, in which all plans take turns.
  unsigned rounds = 3;
  std::string json, markdown; ///< files, or ""
};

/// Measures what the host's profile lacks, predicts, runs, prints a table.
Error benchPredictions(const PredictionOptions &options);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PREDICTIONS_H
