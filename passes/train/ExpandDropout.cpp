// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass around expandDropout.

#include "passes/train/Dropout.h"
#include "passes/train/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_EXPANDDROPOUTPASS
#include "passes/train/Passes.h.inc"

namespace {

class ExpandDropout : public impl::ExpandDropoutPassBase<ExpandDropout> {
public:
  using ExpandDropoutPassBase::ExpandDropoutPassBase;

private:
  void runOnOperation() override {
    for (auto graph : llvm::to_vector(getOperation().getOps<dfg::GraphOp>()))
      expandDropout(graph, seed);
  }
};

} // namespace
} // namespace cleave
