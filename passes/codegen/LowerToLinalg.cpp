// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces operators by their reference meaning, in place.

#include "passes/codegen/LowerBody.h"
#include "passes/codegen/Passes.h"

#include "dialects/dfg/Dfg.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_LOWERTOLINALGPASS
#include "passes/codegen/Passes.h.inc"

namespace {

class LowerToLinalg : public impl::LowerToLinalgPassBase<LowerToLinalg> {
  void runOnOperation() override {
    SmallVector<Operation *> operators;
    getOperation()->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (!isa<LowerInterface, dfg::FusionOp, dfg::ConstantOp, dfg::OpaqueOp>(op))
        return WalkResult::advance();
      operators.push_back(op);
      return WalkResult::skip();
    });
    OpBuilder builder(&getContext());
    for (Operation *op : operators) {
      builder.setInsertionPoint(op);
      auto results = lowerOperator(builder, op, op->getOperands());
      if (failed(results))
        return signalPassFailure();
      op->replaceAllUsesWith(*results);
      op->erase();
    }
  }
};

} // namespace
} // namespace cleave
