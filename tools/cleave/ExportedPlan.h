// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The decision of a plan, and the forms in which `cleave export` gives it to other programs.

#ifndef CLEAVE_TOOLS_CLEAVE_EXPORTEDPLAN_H
#define CLEAVE_TOOLS_CLEAVE_EXPORTEDPLAN_H

#include "tools/cleave/JsonStream.h"
#include "tools/cleave/PlacedTensors.h"

#include "llvm/Support/raw_ostream.h"

namespace cleave::tool {

/// Operators that are computed together: the planner's stage, or where nobody planned any, what one mesh computes.
struct ExportedStage {
  uint32_t mesh = 0;
  std::vector<uint32_t> operators; ///< in the graph's order
  /// The model's parameters that these are the first to read, by their places in ExportedPlan::parameters.
  std::vector<size_t> parameters;
  const runtime::PlanStage *planned = nullptr; ///< what the planner said of it; null without a planner
};

/// What there is to export of one entry. Refers to the plan, which must outlive it.
struct ExportedPlan {
  ExportedPlan(const runtime::PlanContents &plan, const runtime::Entry &entry);

  const runtime::PlanContents &plan;
  const runtime::Entry &entry;
  std::vector<PlacedTensor> parameters, inputs, outputs;
  std::vector<ExportedStage> stages;
  /// The meshes of stages and tensors, by their places in the plan, in its order.
  std::vector<uint32_t> meshes;
  uint64_t microbatches = 1;
  std::string schedule; ///< "" where there is nothing to schedule
  uint32_t chunks = 1;  ///< of each stage, under the schedule
  uint64_t batch = 0;   ///< samples of a step; 0 where the model has none
  /// The ways of each kind of split; none where nobody said them.
  std::vector<runtime::Degree> degrees;
  /// The plan's, completed by what holds where they say nothing.
  std::vector<runtime::Setting> settings;
  /// The numbers of the optimizer's formula, "learning-rate" first; none without training.
  std::vector<std::pair<std::string, double>> hyperparameters;

  /// The operators with which the model goes on in another stage than before, and the stages, by their places in the
  /// entry and in `stages`. Of a step that runs, whose operators are those of backward tasks, too, the first of each
  /// stage but the first.
  std::vector<std::pair<uint32_t, size_t>> splitPoints() const;
  /// Whether the plan says where parameters are. A decision that an older compiler made does not.
  bool placesParameters() const;
};

/// Adds the keys of docs/formats.md to the JSON object that `json` has open.
void writeExport(JsonStream &json, const ExportedPlan &plan);

/// The frameworks for which there are files in Python.
enum class Framework { Jax, Torch };

/// A tensor that a file could not say, as "parameter \"fc1.weight\"", and why.
struct Inexpressible {
  std::string subject, reason;
};

/// Writes a file in Python that says the plan in the framework's words and needs nothing but the framework. Returns
/// what it cannot say, which the file lists as well.
std::vector<Inexpressible> writePython(llvm::raw_ostream &out, const ExportedPlan &plan, Framework framework);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_EXPORTEDPLAN_H
