// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which models are compiled in which ways when predictions are compared with measurements.

#ifndef CLEAVE_TOOLS_CLEAVE_PREDICTIONCASES_H
#define CLEAVE_TOOLS_CLEAVE_PREDICTIONCASES_H

#include "compiler/CompileModel.h"

namespace cleave::tool {

/// A way to compile a model.
struct PlanWay {
  std::string name, machine, strategy;
  /// Of a training step.
  std::string optimizer = "", zero = "auto", schedule = "auto", microbatches = "auto";

  /// A request without a placement file: strategy "place" needs one besides.
  CompileRequest requestFor(const std::string &modelFile) const;
  bool trains() const { return !optimizer.empty(); }
};

/// A model, as a file or as a choice of the zoo, and the ways to compile it.
struct PredictedModel {
  std::string model;
  std::vector<PlanWay> ways;
};

/// The models, each in all ways whose names `plans` has; no models: a choice of the zoo; no plans: each model's own.
/// Status::Usage where a name is unknown.
Expected<std::vector<PredictedModel>> choosePredictions(bool train, const std::vector<std::string> &models,
                                                        const std::vector<std::string> &plans);

/// Writes the zoo's model that "NAME:NUMBER=VALUE,..." describes as a file.
Error writeZooModel(llvm::StringRef spec, const std::string &file);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PREDICTIONCASES_H
