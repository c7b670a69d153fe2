// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Placed graphs to one program a mesh (ProgramWriter.h explains how).

#include "passes/distribute/Passes.h"
#include "passes/distribute/ProgramWriter.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_INSERTTRANSFERSPASS
#include "passes/distribute/Passes.h.inc"

namespace {

class InsertTransfers : public impl::InsertTransfersPassBase<InsertTransfers> {
  void runOnOperation() override {
    SmallVector<dfg::GraphOp> graphs(getOperation().getOps<dfg::GraphOp>());
    auto &costs = getAnalysis<CostAnalysis>();
    int64_t channel = firstFreeChannel();
    for (dfg::GraphOp graph : graphs) {
      ProgramWriter writer(graph, channel, costs);
      if (failed(checkPlaces(graph)) || failed(writer.write()))
        return signalPassFailure();
      channel = writer.getNextChannel();
    }
  }

  /// Programs that are there already keep their channels.
  int64_t firstFreeChannel() {
    int64_t channel = 0;
    getOperation().walk([&](dist::Transfer transfer) { channel = std::max(channel, transfer.getChannelIndex() + 1); });
    return channel;
  }
};

} // namespace
} // namespace cleave
