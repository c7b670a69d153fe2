// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass around buildTrainingStep, for tests.

#include "passes/train/Passes.h"

#include "passes/train/Optimizer.h"
#include "passes/train/TrainingStep.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_TRAININGSTEPPASS
#include "passes/train/Passes.h.inc"

namespace {

class BuildStep : public impl::TrainingStepPassBase<BuildStep> {
public:
  using TrainingStepPassBase::TrainingStepPassBase;

private:
  void runOnOperation() override {
    TrainingOptions options;
    options.microbatches = microbatches;
    options.zero = zero;
    auto chosen = parseOptimizer(optimizer, "");
    if (!chosen) {
      getOperation().emitError() << llvm::toString(chosen.takeError());
      return signalPassFailure();
    }
    options.optimizer = *chosen;
    options.optimizer.learningRate.rate = learningRate;
    options.optimizerInHost = optimizerInHost;
    auto known = pipeline::findSchedule(schedule);
    auto kept = findKept(recompute);
    auto graphs = getOperation().getOps<dfg::GraphOp>();
    if (!known || !kept || !llvm::hasSingleElement(graphs)) {
      getOperation().emitError("expects one graph, a schedule and a kind of recomputation that there are");
      return signalPassFailure();
    }
    options.schedule = *known;
    options.kept = *kept;
    if (failed(buildTrainingStep(*graphs.begin(), options)))
      signalPassFailure();
  }
};

} // namespace
} // namespace cleave
