// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise fusion on tensors with a rule for when it pays.

#include "passes/codegen/NativeFusion.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace cleave {

/// Whether the operation hands on elements as they are.
static bool movesOnly(linalg::LinalgOp op) { return isa<linalg::YieldOp>(op.getBlock()->front()); }

/// Joining computes the producer's element as often as the consumer reads it: that may be more than once only where
/// there is nothing to compute. A producer with several users would be computed for each.
static bool paysToFuse(OpOperand *operand) {
  auto producer = operand->get().getDefiningOp<linalg::LinalgOp>();
  auto consumer = dyn_cast<linalg::LinalgOp>(operand->getOwner());
  if (!producer || !consumer)
    return true;
  for (OpOperand &init : producer.getDpsInitsMutable())
    if (producer.payloadUsesValueFromOperand(&init))
      return false;
  if (movesOnly(producer) && consumer.getNumReductionLoops() == 0)
    return true;
  int64_t reads = 1;
  for (int64_t size : consumer.getStaticLoopRanges())
    reads *= size;
  int64_t elements = cast<RankedTensorType>(operand->get().getType()).getNumElements();
  return reads <= elements &&
         llvm::all_of(producer->getUsers(), [&](Operation *user) { return user == consumer.getOperation(); });
}

void fuseLinalgOperations(Operation *container) {
  RewritePatternSet patterns(container->getContext());
  linalg::populateElementwiseOpsFusionPatterns(patterns, paysToFuse);
  GreedyRewriteConfig config;
  config.setUseTopDownTraversal(true);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  (void)applyPatternsGreedily(container, std::move(patterns), config);
}

} // namespace cleave
