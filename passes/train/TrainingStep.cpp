// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps by their writer (StepWriter.h).

#include "passes/train/TrainingStep.h"

#include "passes/train/StepWriter.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace cleave {

std::optional<KeptActivations> findKept(StringRef name) {
  return llvm::StringSwitch<std::optional<KeptActivations>>(name)
      .Case("none", KeptActivations::All)
      .Case("selective", KeptActivations::Products)
      .Case("full", KeptActivations::StageInputs)
      .Default(std::nullopt);
}

FailureOr<dfg::GraphOp> buildTrainingStep(dfg::GraphOp forward, const TrainingOptions &options,
                                          ChangedParameters *changed) {
  StepWriter writer(forward, options);
  auto step = writer.write();
  if (failed(step))
    return failure();
  if (changed)
    *changed = writer.takeChanged();
  forward.erase();
  return step;
}

} // namespace cleave
