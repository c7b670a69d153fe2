// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Backward tasks: what is computed again, the gradients of a stage's operators, and which of them can wait.

#include "passes/train/StepWriter.h"

#include "dialects/dist/Accumulation.h"
#include "passes/planner/ModelNode.h"
#include "passes/train/CotangentTerms.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

SmallVector<Segment> StepWriter::segmentsOf(unsigned stage) const {
  if (options.schedule.drains())
    return stages[stage].getSegments();
  return {{stages[stage].operators, {}}};
}

KeptActivations StepWriter::keptOf(unsigned stage, const Segment &segment) const {
  KeptActivations ofMesh = options.of(stages[stage].mesh).kept;
  return segment.recompute ? findKept(segment.recompute.getWhat()).value_or(ofMesh) : ofMesh;
}

bool StepWriter::computesAgain(unsigned stage) const {
  return llvm::any_of(segmentsOf(stage),
                      [&](const Segment &segment) { return keptOf(stage, segment) != KeptActivations::All; });
}

LogicalResult StepWriter::recompute(Batch &batch, unsigned number, unsigned stage, const Segment &segment) {
  Microbatch &microbatch = batch.microbatches[number];
  KeptActivations kept = keptOf(stage, segment);
  used.clear();
  if (kept == KeptActivations::All || kept == KeptActivations::InHost) {
    if (isCarried(batch, number, stage))
      return copyCarried(batch, number, stage);
    for (Operation *op : segment.operators)
      if (op->getNumResults())
        used[op] = microbatch.values.lookup(op->getResult(0)).getDefiningOp();
    return success();
  }
  IRMapping values = microbatch.values;
  llvm::DenseSet<Value> seen;
  for (Operation *op : segment.operators) {
    if (isa<dfg::WriteOp>(op))
      continue;
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *producer = operand.get().getDefiningOp();
      bool isShared = producer && followsItsUsers(producer);
      if (!isShared && !seen.insert(operand.get()).second)
        continue;
      // What the step before left is another value on each mesh.
      if (part != StepPart::Whole && failed(provide(batch, number, operand)))
        return failure();
      Value known = microbatch.values.lookup(operand.get());
      if (isShared)
        values.map(operand.get(), known);
      else if (failed(seeAgain(operand, known, values)))
        return failure();
    }
    recorder.take();
    Operation *copy = builder.clone(*op, values);
    copy->setLoc(partOf(op->getLoc(), "recompute"));
    taskOperators.append(recorder.take());
    used[op] = copy;
    if (!isKept(op, kept))
      seen.insert(op->result_begin(), op->result_end());
  }
  return success();
}

bool StepWriter::isKept(Operation *op, KeptActivations kept) {
  auto cost = dyn_cast<CostInterface>(op);
  return kept == KeptActivations::Products && cost && cost.getCost().costClass == CostClass::Contraction;
}

LogicalResult StepWriter::seeAgain(OpOperand &operand, Value kept, IRMapping &values) {
  Operation *user = operand.getOwner();
  if (failed(places.follow(user, SmallVector<Value>(user->getNumResults()))))
    return failure();
  Layout layout = *places.find(operand.get());
  recorder.take();
  Value barrier = dfg::BarrierOp::create(builder, kept.getLoc(), kept, barriers++);
  SmallVector<Operation *> created = recorder.take();
  places.hint(barrier, layout);
  values.map(operand.get(), barrier);
  taskOperators.append(created);
  return places.place(created);
}

LogicalResult StepWriter::useFirst(Batch &batch, unsigned number, Operation *op) {
  for (auto [result, copy] : llvm::zip_equal(op->getResults(), used[op]->getResults())) {
    if (copy.use_empty())
      continue;
    FailureOr<Value> first = batch.microbatches[number].values.lookupOrNull(result);
    if (isCarried(batch, number, stageOf.lookup(op)) && ofBatch.contains(result))
      first = readResult(result, number);
    if (failed(first))
      return failure();
    if (*first != copy)
      copy.replaceAllUsesWith(*first);
  }
  return success();
}

Attribute StepWriter::nameOf(Operation *producer) {
  auto read = dyn_cast<dfg::ReadOp>(producer);
  return read ? Attribute(read.getParameterAttr()) : Attribute();
}

LogicalResult StepWriter::writeBackward(Batch &batch, unsigned number, unsigned stage) {
  Microbatch &microbatch = batch.microbatches[number];
  taskOperators.clear();
  recorder.take();
  beginGathers(stage, /*isForward=*/false);
  SmallVector<Segment> segments = segmentsOf(stage);
  for (const Segment &segment : llvm::reverse(segments)) {
    KeptActivations kept = keptOf(stage, segment);
    if (failed(recompute(batch, number, stage, segment)))
      return failure();
    if (&segment == &segments.back())
      seedLoss(microbatch, stage);
    for (Operation *op : llvm::reverse(segment.operators)) {
      for (Value result : op->getResults())
        if (failed(joinCotangents(microbatch, result)))
          return failure();
      bool isOnce = op->getNumResults() == 1 && addsUp(op->getResult(0));
      if (isOnce && number == lastBackward[stage] && failed(differentiateOnce(microbatch, op)))
        return failure();
      if (!isOnce && failed(differentiate(microbatch, op)))
        return failure();
      if (isKept(op, kept) && failed(useFirst(batch, number, op)))
        return failure();
    }
    if (kept == KeptActivations::All && isCarried(batch, number, stage) && failed(useCarried(batch, number, stage)))
      return failure();
  }
  for (const auto &[of, terms] : std::exchange(apart, {}))
    if (failed(joinCotangents(microbatch, of, terms)))
      return failure();
  if (failed(fetchActivations(microbatch, stage)))
    return failure();
  return gatherFor(taskOperators, stage);
}

void StepWriter::seedLoss(Microbatch &microbatch, unsigned stage) {
  Value loss = forward.getBody().front().getTerminator()->getOperand(0);
  if (!llvm::is_contained(stages[stage].operators, loss.getDefiningOp()))
    return;
  Value &cotangent = microbatch.cotangents[loss];
  cotangent = microbatch.gradientShare;
  if (cotangent)
    return;
  auto type = cast<RankedTensorType>(loss.getType());
  FloatAttr one = FloatAttr::get(type.getElementType(), 1.0 / options.microbatches / options.replicas);
  cotangent = dfg::ConstantOp::create(builder, partOf(loss.getLoc(), "gradient"), DenseElementsAttr::get(type, one));
  taskOperators.append(recorder.take());
}

LogicalResult StepWriter::differentiate(Microbatch &microbatch, Operation *original) {
  SmallVector<Value> cotangents;
  for (Value result : original->getResults())
    cotangents.push_back(active.contains(result) ? microbatch.cotangents.lookup(result) : Value());
  if (llvm::none_of(cotangents, [](Value cotangent) { return cotangent != nullptr; }))
    return success();
  SmallVector<bool> needed;
  for (Value operand : original->getOperands())
    needed.push_back(active.contains(operand));
  Operation *op = used[original];
  if (!isa<DifferentiateInterface>(op))
    return original->emitError("the operator has no gradient, and lies between a parameter and the loss; train "
                               "without it, or give it one (DifferentiateInterface)");
  lastPlace = dist::getPlace(op);
  SmallVector<Operation *> created;
  auto made = places.differentiate(op, {cotangents, needed}, builder, created);
  recorder.take();
  if (failed(made))
    return failure();
  for (Operation *gradient : created)
    gradient->setLoc(partOf(original->getLoc(), "gradient"));
  taskOperators.append(created);
  for (auto [operand, isNeeded, cotangent] : llvm::zip_equal(original->getOperands(), needed, *made))
    if (isNeeded && cotangent) {
      if (mayBeJoined(cotangent))
        apart[operand].push_back(cotangent);
      else if (failed(addCotangent(microbatch, operand, cotangent)))
        return failure();
    }
  return success();
}

LogicalResult StepWriter::differentiateOnce(Microbatch &microbatch, Operation *original) {
  Value result = original->getResult(0);
  for (const GradientSum &sum : wholeCotangents.lookup(result)) {
    microbatch.cotangents[result] = sum.value;
    if (failed(differentiate(microbatch, original)))
      return failure();
  }
  return success();
}

bool StepWriter::addsUp(Value of) {
  Operation *producer = of.getDefiningOp();
  if (options.microbatches == 1 || part != StepPart::Whole || !producer || producer->getNumResults() != 1 ||
      ofBatch.contains(of) || !active.contains(of) || followsItsUsers(producer))
    return false;
  // What is narrow is widened before it is added.
  if (cast<RankedTensorType>(of.getType()).getElementTypeBitWidth() < 32)
    return false;
  // Tasks of other stages may come later, and replicas that share gradients keep none whole.
  unsigned stage = stageOf.lookup(producer);
  return options.of(stages[stage].mesh).zero < 2 &&
         llvm::all_of(of.getUsers(), [&](Operation *user) { return stageOf.lookup(user) == stage; });
}

LogicalResult StepWriter::joinCotangents(Microbatch &microbatch, Value of) {
  auto terms = apart.find(of);
  return terms == apart.end() ? success() : joinCotangents(microbatch, of, std::exchange(terms->second, {}));
}

LogicalResult StepWriter::joinCotangents(Microbatch &microbatch, Value of, ArrayRef<Value> terms) {
  SmallVector<Operation *> created;
  auto joined = joinTerms(terms, places, builder, created);
  recorder.take();
  if (failed(joined))
    return failure();
  taskOperators.append(created);
  for (Value cotangent : *joined) {
    // The last operator that was differentiated need not be the one whose places are known.
    dist::PlaceAttr place = dist::getPlace(cotangent.getDefiningOp());
    places.begin(place.getMesh(), place.getBy());
    auto layouts = places.layoutsOf(cotangent.getDefiningOp());
    if (failed(layouts))
      return failure();
    places.hint(cotangent, layouts->results.front());
    if (failed(addCotangent(microbatch, of, cotangent)))
      return failure();
  }
  return success();
}

/// A parameter that several operators read, tied weights say, may have gradients that lie differently. Added to one
/// sum, each of a microbatch would be exchanged; in sums of their own only these are, once a step.
Value &StepWriter::sumOf(GradientSums &sums, Attribute mesh, const std::optional<Layout> &layout) {
  for (GradientSum &sum : sums)
    if (sum.mesh == mesh && sum.layout == layout)
      return sum.value;
  return sums.emplace_back(GradientSum{mesh, layout, Value()}).value;
}

LogicalResult StepWriter::addCotangent(Microbatch &microbatch, Value of, Value cotangent) {
  Operation *producer = of.getDefiningOp();
  auto parameter = producer ? parameters.find(nameOf(producer)) : parameters.end();
  auto known = places.find(cotangent);
  std::optional<Layout> layout = known ? std::optional(*known) : std::nullopt;
  if (parameter != parameters.end() && options.of(currentMesh(cotangent)).zero >= 2)
    layout = shareReplicas(parameter->second.home, places.shapeOf(currentMesh(cotangent)));
  GradientSums *sums = parameter != parameters.end() ? &parameter->second.gradients
                       : addsUp(of)                  ? &wholeCotangents[of]
                                                     : nullptr;
  Value &sum = sums ? sumOf(*sums, currentMesh(cotangent), layout) : microbatch.cotangents[of];
  if (!sum) {
    sum = cotangent;
    return success();
  }
  recorder.take();
  sum = dfg::AddOp::create(builder, cotangent.getLoc(), sum, cotangent);
  if (sums)
    sum.getDefiningOp()->setAttr(dist::accumulatesAttrName, builder.getUnitAttr());
  SmallVector<Operation *> created = recorder.take();
  dist::PlaceAttr place = placeOf(cotangent);
  places.begin(place.getMesh(), place.getBy());
  if (layout)
    places.hint(sum, *layout);
  taskOperators.append(created);
  return places.place(created);
}

dist::PlaceAttr StepWriter::placeOf(Value value) {
  dist::PlaceAttr place = value.getDefiningOp() ? dist::getPlace(value.getDefiningOp()) : dist::PlaceAttr();
  return place ? place : lastPlace;
}

void StepWriter::setAsideWeights(Microbatch &microbatch, unsigned stage) {
  llvm::DenseSet<Operation *> members(taskOperators.begin(), taskOperators.end()), needed;
  SmallVector<Operation *> work;
  for (Operation *op : stages[stage].operators)
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      bool isOutside = producer && !followsItsUsers(producer) && !llvm::is_contained(stages[stage].operators, producer);
      if (!isOutside)
        continue;
      if (Value cotangent = microbatch.cotangents.lookup(operand))
        if (Operation *maker = cotangent.getDefiningOp())
          work.push_back(maker);
    }
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    if (!members.contains(op) || !needed.insert(op).second)
      continue;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        work.push_back(maker);
  }
  for (Operation *op : taskOperators)
    if (!needed.contains(op))
      microbatch.weightGradients[stage].push_back(op);
}

} // namespace cleave
