// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activations that are kept in the host's memory between a forward task and its backward task.

#include "passes/train/StepWriter.h"

#include "dialects/dfg/PlainScores.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

FailureOr<bool> StepWriter::streamsScores(dfg::Attention &attention) {
  auto layouts = places.layoutsOf(attention.softmax);
  if (failed(layouts))
    return failure();
  FlatSymbolRefAttr mesh = dist::getPlace(attention.softmax).getMesh();
  RankedTensorType type = attention.getScoresType();
  int64_t queries = type.getShape().take_back(2).front(), keys = type.getShape().back();
  SmallVector<dist::Device> devices = dist::getDevices(module);
  auto first = static_cast<size_t>(module.lookupSymbol<dist::MeshOp>(mesh.getValue()).getDevices().front());
  if (first < devices.size() && devices[first].isGpu())
    return dfg::hasAttentionKernels(devices[first].chip) && dfg::isOneLibraryKernel(queries, keys) &&
           attention.result.getType().getElementType().isBF16() && dfg::getPlainScores(attention).has_value();
  return dfg::streamsScores(static_cast<double>(layouts->results.front().localBytes(type, places.shapeOf(mesh))),
                            queries, keys);
}

LogicalResult StepWriter::findUnmoved() {
  for (auto softmax : forward.getBody().front().getOps<dfg::SoftmaxOp>()) {
    auto attention = dfg::findAttention(softmax, nullptr, dfg::ScoreTypes::Any);
    if (!attention)
      continue;
    FailureOr<bool> streams = streamsScores(*attention);
    if (failed(streams))
      return failure();
    if (!*streams)
      continue;
    for (Operation *op : attention->getOperators())
      unmoved.insert(op);
    for (Value read : {attention->scores.getLhs(), attention->scores.getRhs(), attention->result.getRhs()})
      for (Operation *op = read.getDefiningOp(); op;
           op = isa<dfg::ReshapeOp>(op) ? op->getOperand(0).getDefiningOp() : nullptr)
        unmoved.insert(op);
  }
  return success();
}

FailureOr<Value> StepWriter::fetch(OpResult kept, Operation *user) {
  if (Value known = fetched.lookup(kept))
    return known;
  Operation *producer = kept.getOwner();
  // What shows the bytes of another value is fetched with it, or stays with it.
  if (isa<dfg::ReshapeOp>(producer)) {
    auto shown = dyn_cast<OpResult>(producer->getOperand(0));
    if (!shown || !makers.contains(shown.getOwner()))
      return fetched[kept] = kept;
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
  OpBuilder copies(producer->getContext(), &recorder);
  copies.setInsertionPointAfter(producer);
  recorder.take();
  Value offloaded = dfg::OffloadOp::create(copies, partOf(kept.getLoc(), "offload"), kept);
  copies.setInsertionPoint(user);
  Value back = dfg::FetchOp::create(copies, partOf(kept.getLoc(), "fetch"), offloaded);
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
        if (op->getNumResults() && ofBatch.contains(op->getResult(0)) && !unmoved.contains(op))
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
