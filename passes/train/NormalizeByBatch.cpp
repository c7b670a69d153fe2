// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass around normalizeByBatch.

#include "passes/train/BatchNormTraining.h"
#include "passes/train/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_NORMALIZEBYBATCHPASS
#include "passes/train/Passes.h.inc"

namespace {

class NormalizeByBatch : public impl::NormalizeByBatchPassBase<NormalizeByBatch> {
public:
  using NormalizeByBatchPassBase::NormalizeByBatchPassBase;

private:
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<dfg::GraphOp>())
      normalizeByBatch(graph, [&](dfg::BatchNormOp) { return groups.getValue(); });
  }
};

} // namespace
} // namespace cleave
