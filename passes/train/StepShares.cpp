// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the loss of each microbatch counts for in the step's. Microbatches have as many samples each, but not as many
// labels that count: the mean over all of them weighs each microbatch's mean by its labels.

#include "passes/train/StepWriter.h"

#include "dialects/dfg/PortAttributes.h"
#include "passes/planner/ModelNode.h"
#include "passes/train/Arithmetic.h"

using namespace mlir;

namespace cleave {

/// The result that says what the loss is a mean over; null where none does.
static Value findCounts(dfg::GraphOp graph) {
  for (unsigned index = 0; index != graph.getNumResults(); ++index)
    if (graph.getResultAttr(index, dfg::countsAttrName))
      return graph.getBody().front().getTerminator()->getOperand(index);
  return {};
}

llvm::SetVector<Operation *> StepWriter::producersOf(Value result) {
  llvm::SetVector<Operation *> reversed, producers;
  for (Operation &op : llvm::reverse(forward.getBody().front().without_terminator())) {
    bool isNeeded = llvm::any_of(op.getResults(), [&](Value made) {
      return made == result || llvm::any_of(made.getUsers(), [&](Operation *user) { return reversed.contains(user); });
    });
    if (isNeeded && !followsItsUsers(&op))
      reversed.insert(&op);
  }
  producers.insert(reversed.rbegin(), reversed.rend());
  return producers;
}

LogicalResult StepWriter::shareLoss() {
  Value counts = findCounts(forward);
  // One microbatch is the whole.
  if (!counts || options.microbatches == 1)
    return success();
  if (!counts.getDefiningOp() || active.contains(counts))
    return forward.emitError("training expects what the loss is a mean over to be computed from inputs alone");
  counted = producersOf(counts);
  std::vector<Microbatch> &microbatches = batches[0].microbatches;
  for (Operation *op : counted)
    if (numAhead[stageOf.lookup(op)] != 0)
      return forward.emitError("schedule ")
             << options.schedule->name << " expects what the loss is a mean over to be counted in the last stage";
  for (auto [number, microbatch] : llvm::enumerate(microbatches))
    for (Operation *op : counted) {
      for (OpOperand &operand : op->getOpOperands())
        if (failed(provide(batches[0], static_cast<unsigned>(number), operand)))
          return failure();
      builder.clone(*op, microbatch.values);
    }
  recorder.take();
  Value loss = forward.getBody().front().getTerminator()->getOperand(0);
  Arithmetic math(builder, partOf(loss.getLoc(), "share"));
  Value total;
  for (Microbatch &microbatch : microbatches) {
    Value count = microbatch.values.lookup(counts);
    total = total ? math.add(total, count) : count;
  }
  total = math.max(math.cast(total, Arithmetic::elementOf(loss)), 1.0);
  for (Microbatch &microbatch : microbatches) {
    microbatch.share = math.div(math.cast(microbatch.values.lookup(counts), Arithmetic::elementOf(loss)), total);
    microbatch.gradientShare =
        options.replicas == 1 ? microbatch.share : math.mul(microbatch.share, 1.0 / options.replicas);
  }
  return placeCreated(dist::getPlace(counts.getDefiningOp()).getMesh(), "loss", {});
}

} // namespace cleave
