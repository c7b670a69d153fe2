// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activations that are kept in the host's memory between a forward task and its backward task.

#include "passes/train/StepWriter.h"

#include "dialects/dfg/Attention.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

void StepWriter::findScores() {
  for (auto softmax : forward.getBody().front().getOps<dfg::SoftmaxOp>())
    if (auto attention = dfg::findAttention(softmax, nullptr, dfg::ScoreTypes::Any))
      for (Operation *op : attention->getOperators())
        if (op != attention->result)
          scores.insert(op);
}

void StepWriter::recomputeScores(Microbatch &microbatch, const Segment &segment) {
  // From values of the forward graph to what is computed again of them.
  IRMapping values = microbatch.values;
  llvm::DenseSet<Value> again;
  for (Operation *op : segment.operators) {
    if (op->getNumResults() == 0)
      continue;
    bool readsAgain = llvm::any_of(op->getOperands(), [&](Value operand) { return again.contains(operand); });
    if (!scores.contains(op) && !readsAgain) {
      used[op] = microbatch.values.lookup(op->getResult(0)).getDefiningOp();
      continue;
    }
    IRMapping own = values;
    recorder.take();
    Operation *copy = builder.clone(*op, own);
    copy->setLoc(partOf(op->getLoc(), "recompute"));
    taskOperators.append(recorder.take());
    used[op] = copy;
    if (!scores.contains(op))
      continue;
    for (auto [result, made] : llvm::zip_equal(op->getResults(), copy->getResults())) {
      values.map(result, made);
      again.insert(result);
    }
  }
}

FailureOr<Value> StepWriter::fetch(OpResult kept, Operation *user) {
  if (Value known = fetched.lookup(kept))
    return known;
  Operation *producer = kept.getOwner();
  // What shows the bytes of another value is fetched with it.
  if (auto shown = isa<dfg::ReshapeOp>(producer) ? dyn_cast<OpResult>(producer->getOperand(0)) : OpResult();
      shown && makers.contains(shown.getOwner())) {
    FailureOr<Value> source = fetch(shown, user);
    if (failed(source))
      return failure();
    IRMapping mapping;
    mapping.map(shown, *source);
    return fetched[kept] = OpBuilder(user).clone(*producer, mapping)->getResult(0);
  }
  dist::PlaceAttr place = dist::getPlace(producer);
  auto layouts = places.layoutsOf(producer);
  if (failed(layouts))
    return failure();
  Layout layout = layouts->results[kept.getResultNumber()];
  layout.partial.clear();
  layout.combiner = Combiner::None;
  OpBuilder behind(producer->getContext(), &recorder);
  behind.setInsertionPointAfter(producer);
  recorder.take();
  Value offloaded = dfg::OffloadOp::create(behind, partOf(kept.getLoc(), "offload"), kept);
  behind.setInsertionPoint(user);
  Value back = dfg::FetchOp::create(behind, partOf(kept.getLoc(), "fetch"), offloaded);
  SmallVector<Operation *> created = recorder.take();
  places.begin(place.getMesh(), place.getBy());
  for (Value value : {Value(kept), offloaded, back})
    places.hint(value, layout);
  if (failed(places.place(created)))
    return failure();
  return fetched[kept] = back;
}

LogicalResult StepWriter::fetchActivations(Microbatch &microbatch, unsigned stage) {
  makers.clear();
  fetched.clear();
  for (const Segment &segment : segmentsOf(stage))
    if (keptOf(stage, segment) == KeptActivations::InHost)
      for (Operation *op : segment.operators)
        if (op->getNumResults() && ofBatch.contains(op->getResult(0)) && !scores.contains(op))
          makers.insert(microbatch.values.lookup(op->getResult(0)).getDefiningOp());
  if (makers.empty())
    return success();
  // In the order in which they stand: the first one that reads a value has it fetched.
  for (Operation *op : SmallVector<Operation *>(taskOperators))
    for (OpOperand &operand : op->getOpOperands()) {
      auto kept = dyn_cast<OpResult>(operand.get());
      if (!kept || !makers.contains(kept.getOwner()))
        continue;
      FailureOr<Value> value = fetch(kept, op);
      if (failed(value))
        return failure();
      operand.set(*value);
    }
  return success();
}

} // namespace cleave
