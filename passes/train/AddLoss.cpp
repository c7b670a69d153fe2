// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Appends the loss that the pass's option names.

#include "passes/train/Loss.h"
#include "passes/train/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ADDLOSSPASS
#include "passes/train/Passes.h.inc"

namespace {

class AddLoss : public impl::AddLossPassBase<AddLoss> {
public:
  using AddLossPassBase::AddLossPassBase;

private:
  void runOnOperation() override {
    auto options = parseLoss(loss);
    if (!options) {
      getOperation().emitError(llvm::toString(options.takeError()));
      return signalPassFailure();
    }
    for (auto graph : getOperation().getOps<dfg::GraphOp>())
      if (failed(addLoss(graph, *options)))
        return signalPassFailure();
  }
};

} // namespace
} // namespace cleave
