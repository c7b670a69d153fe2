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
      .Case("offload", KeptActivations::InHost)
      .Default(std::nullopt);
}

FailureOr<dfg::GraphOp> buildTrainingStep(dfg::GraphOp forward, const TrainingOptions &options,
                                          ChangedParameters *changed) {
  CarriedValues carried;
  auto write = [&](StepPart part, ChangedParameters *found) -> FailureOr<dfg::GraphOp> {
    StepWriter writer(forward, options, part, carried);
    auto written = writer.write();
    if (found)
      *found = writer.takeChanged();
    return written;
  };
  bool drains = options.schedule.drains();
  auto step = write(drains ? StepPart::Whole : StepPart::Steady, changed);
  if (failed(step))
    return failure();
  if (!drains && (failed(write(StepPart::Fill, nullptr)) || failed(write(StepPart::Drain, nullptr))))
    return failure();
  for (auto graph : cast<ModuleOp>(forward->getParentOp()).getOps<dfg::GraphOp>())
    graph.walk([](Operation *op) { op->removeDiscardableAttr(dist::recomputeAttrName); });
  forward.erase();
  return step;
}

} // namespace cleave
