// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The step's frame, its parameters, and forward tasks.

#include "passes/train/StepWriter.h"

#include "passes/planner/ModelNode.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

using dist::Layout;
using pipeline::TaskKind;

Location partOf(Location location, StringRef part) {
  StringRef name = dfg::getNodeName(location);
  return dfg::getNodeLocation(location.getContext(), (name + "/" + part).str(), dfg::getNodeKind(location));
}

FailureOr<dfg::GraphOp> StepWriter::write() {
  if (failed(check()) || failed(createGraph()))
    return failure();
  findActive();
  for (Batch &batch : batches)
    batch.microbatches.resize(options.microbatches);
  std::vector<StageTask> tasks = orderTasks(stages, options.schedule, options.microbatches);
  numAhead.resize(stages.size());
  lastBackward.resize(stages.size());
  for (const StageTask &task : tasks) {
    numAhead[task.stage] += task.isAhead;
    if (task.kind == TaskKind::Backward || task.kind == TaskKind::BackwardInput)
      lastBackward[task.stage] = task.microbatch;
  }
  for (auto [index, stage] : llvm::enumerate(stages))
    for (Operation *op : stage.operators)
      stageOf[op] = static_cast<unsigned>(index);
  bool offloads = llvm::any_of(stages, [&](const Stage &stage) {
    return llvm::any_of(stage.getSegments(), [&](const Segment &segment) {
      return keptOf(static_cast<unsigned>(&stage - stages.data()), segment) == KeptActivations::InHost;
    });
  });
  if (offloads && failed(findUnmoved()))
    return failure();
  bool doesStep = part != StepPart::Fill, begins = part == StepPart::Fill || part == StepPart::Steady;
  if (failed(readParameters()) || (doesStep && failed(shareLoss())))
    return failure();
  for (const StageTask &task : tasks)
    if ((task.isAhead ? begins : doesStep) && failed(writeTask(task)))
      return failure();
  if ((doesStep && failed(update())) || failed(writeForwardState()) || (begins && failed(carry())) || failed(finish()))
    return failure();
  removeUnused(step);
  if (part == StepPart::Steady)
    removeUncarried();
  return step;
}

/// What a schedule expects of stages.
static StringRef wantedStages(pipeline::Schedule schedule) {
  if (!schedule.hasChunks())
    return "form one chain over the devices";
  return schedule->chunkOrder == pipeline::ChunkOrder::Turns ? "pass over the devices and come back, as by --place"
                                                             : "pass over the devices several times, as by --place";
}

LogicalResult StepWriter::check() {
  if (failed(checkDelay()))
    return failure();
  // A prediction of the wish would not come true: whoever has it is told.
  if (pipeline::Schedule possible = possibleSchedule(stages, options.schedule); possible != options.schedule)
    forward.emitWarning("schedule ") << options.schedule->name << " expects stages that "
                                     << wantedStages(options.schedule) << "; these are worked on in the order of "
                                     << possible->name;
  if (forward.getResultTypes().empty())
    return forward.emitError("training expects the model to return a loss, got no results");
  auto loss = cast<RankedTensorType>(forward.getResultTypes().front());
  if (loss.getRank() != 0 || !isa<FloatType>(loss.getElementType()))
    return forward.emitError("training expects a scalar loss as the first result, got ") << loss;
  for (auto [index, type] : llvm::enumerate(forward.getArgumentTypes())) {
    auto tensor = cast<RankedTensorType>(type), first = cast<RankedTensorType>(forward.getArgumentTypes().front());
    if (tensor.getRank() != 0 && tensor.getDimSize(0) == first.getDimSize(0))
      continue;
    InFlightDiagnostic error =
        forward.emitError("training expects every input to have its samples in dimension 0, got input \"")
        << forward.getInputName(index) << "\" of type " << tensor;
    if (index != 0)
      error << " beside \"" << forward.getInputName(0) << "\" of type " << first;
    return error;
  }
  return success();
}

static StringRef graphNameOf(StepPart part) {
  return part == StepPart::Fill ? fillGraphName : part == StepPart::Drain ? drainGraphName : trainGraphName;
}

LogicalResult StepWriter::createGraph() {
  SmallVector<Type> inputs;
  for (Type type : forward.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(tensor.getShape());
    shape.front() *= options.microbatches;
    inputs.push_back(RankedTensorType::get(shape, tensor.getElementType()));
  }
  bool takesBatch = part != StepPart::Drain, givesLoss = part != StepPart::Fill;
  // Whoever asks for no entry gets the first one.
  if (takesBatch && givesLoss)
    builder.setInsertionPointAfter(forward);
  else
    builder.setInsertionPointToEnd(module.getBody());
  auto type = builder.getFunctionType(takesBatch ? TypeRange(inputs) : TypeRange(),
                                      givesLoss ? TypeRange(forward.getResultTypes()) : TypeRange());
  step = dfg::GraphOp::create(builder, forward.getLoc(), graphNameOf(part), type);
  if (auto attributes = forward.getArgAttrsAttr(); attributes && takesBatch)
    step.setArgAttrsAttr(attributes);
  if (auto attributes = forward.getResAttrsAttr(); attributes && givesLoss)
    step.setResAttrsAttr(attributes);
  step->setAttr(dist::orderedAttrName, builder.getUnitAttr());
  if (!inputs.empty())
    step->setAttr(dfg::samplesAttrName,
                  builder.getI64IntegerAttr(cast<RankedTensorType>(inputs.front()).getDimSize(0)));
  body = &step.getBody().front();
  builder.setInsertionPointToEnd(body);
  recorder.take();
  return success();
}

void StepWriter::findActive() {
  for (auto write : forward.getBody().front().getOps<dfg::WriteOp>())
    writers[write.getParameterAttr()] = write;
  SymbolTable symbols(module);
  for (Operation &op : forward.getBody().front()) {
    bool isActive = llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); });
    auto read = dyn_cast<dfg::ReadOp>(op);
    if (read)
      isActive = isTrained(read, symbols);
    if (isActive)
      active.insert(op.result_begin(), op.result_end());
    bool isOfBatch = read && writers.contains(read.getParameterAttr());
    for (Value operand : op.getOperands())
      isOfBatch |= !operand.getDefiningOp() || ofBatch.contains(operand);
    if (isOfBatch)
      ofBatch.insert(op.result_begin(), op.result_end());
  }
}

LogicalResult StepWriter::readParameters() {
  for (Operation &op : forward.getBody().front()) {
    if (!followsItsUsers(&op))
      continue;
    auto read = dyn_cast<dfg::ReadOp>(op);
    bool isKept = read && (active.contains(read) || writers.contains(read.getParameterAttr()));
    if (!isKept || read->use_empty()) {
      Operation *copy = builder.clone(op);
      for (Batch &batch : batches)
        batch.shared.map(op.getResults(), copy->getResults());
      continue;
    }
    auto [entry, isNew] = parameters.try_emplace(read.getParameterAttr());
    Parameter &parameter = entry->second;
    if (isNew) {
      parameter.read = cast<dfg::ReadOp>(builder.clone(op));
      if (failed(findHome(read, parameter)) || failed(readPrevious(parameter)))
        return failure();
    }
    batches[0].shared.map(read.getResult(), parameter.previous.getResult());
    batches[1].shared.map(read.getResult(), parameter.read.getResult());
  }
  recorder.take();
  return success();
}

LogicalResult StepWriter::findHome(dfg::ReadOp read, Parameter &parameter) {
  auto home = cleave::findHome(read, active.contains(read), options, places);
  if (failed(home))
    return failure();
  parameter.home = home->kept;
  parameter.updated = home->updated;
  parameter.isShared = home->kept != home->used;
  if (parameter.isShared)
    shownReads[parameter.read] = parameter.read;
  recorder.operators = {parameter.read};
  return placeCreated(home->mesh, "home", {{parameter.read, parameter.home}});
}

//===-- forward ---------------------------------------------------------------------------------------------===//

LogicalResult StepWriter::writeTask(const StageTask &task) {
  Batch &batch = batches[task.isAhead];
  switch (task.kind) {
  case TaskKind::Forward:
    return writeForward(batch, task.microbatch, task.stage);
  case TaskKind::Backward:
    return writeBackward(batch, task.microbatch, task.stage);
  case TaskKind::BackwardInput:
    if (failed(writeBackward(batch, task.microbatch, task.stage)))
      return failure();
    // What was computed again would have to be kept for them.
    if (!computesAgain(task.stage))
      setAsideWeights(batch.microbatches[task.microbatch], task.stage);
    return success();
  case TaskKind::BackwardWeight:
    for (Operation *op : batch.microbatches[task.microbatch].weightGradients[task.stage])
      op->moveBefore(body, body->end());
    return success();
  }
  llvm_unreachable("tasks are listed above");
}

LogicalResult StepWriter::writeForward(Batch &batch, unsigned number, unsigned stage) {
  Microbatch &microbatch = batch.microbatches[number];
  SmallVector<Operation *> copies;
  beginGathers(stage, /*isForward=*/true);
  for (Operation *op : stages[stage].operators) {
    if (counted.contains(op))
      continue;
    if (auto write = dyn_cast<dfg::WriteOp>(op)) {
      microbatch.nextValues[write.getParameterAttr()] = {microbatch.values.lookup(write.getValue()), op};
      continue;
    }
    for (OpOperand &operand : op->getOpOperands())
      if (failed(provide(batch, number, operand)))
        return failure();
    copies.push_back(builder.clone(*op, microbatch.values));
  }
  recorder.take();
  return gatherFor(copies, stage);
}

FailureOr<Value> StepWriter::valueOf(Batch &batch, dfg::ReadOp read, unsigned number, Operation *user) {
  Operation *writer = writers.lookup(read.getParameterAttr());
  // The next batch follows the step's.
  bool isAhead = &batch != &batches[0];
  bool isFirst = number == 0 && (!isAhead || part == StepPart::Fill);
  if (!writer || isFirst || (number != 0 && isCarried(batch, number - 1, stageOf.lookup(writer))))
    return versionOf(batch, read, number, stageOf.lookup(user));
  auto &before = number == 0 ? batches[0].microbatches.back() : batch.microbatches[number - 1];
  auto next = before.nextValues.find(read.getParameterAttr());
  if (next != before.nextValues.end())
    return next->second.first;
  return read.emitError("training expects \"")
         << read.getParameter()
         << "\" to be written in a stage that runs no later than those that read it for the next "
         << "microbatch; give --microbatches 1, or place its operators in one stage";
}

LogicalResult StepWriter::provide(Batch &batch, unsigned number, OpOperand &operand) {
  Microbatch &microbatch = batch.microbatches[number];
  Value value = operand.get();
  if (Operation *producer = value.getDefiningOp()) {
    if (auto read = dyn_cast<dfg::ReadOp>(producer); read && followsItsUsers(producer)) {
      FailureOr<Value> known = valueOf(batch, read, number, operand.getOwner());
      if (failed(known))
        return failure();
      microbatch.values.map(value, *known);
    } else if (followsItsUsers(producer)) {
      microbatch.values.map(value, batch.shared.lookup(value));
    } else if (isCarried(batch, number, stageOf.lookup(producer))) {
      return provideCarried(batch, number, operand);
    }
    return success();
  }
  auto argument = cast<BlockArgument>(value);
  FlatSymbolRefAttr mesh = dist::getPlace(operand.getOwner()).getMesh();
  if (options.microbatches == 1) {
    microbatch.values.map(value, body->getArgument(argument.getArgNumber()));
    return success();
  }
  Value &slice = batch.slices[{argument.getArgNumber(), mesh.getAsOpaquePointer(), number}];
  if (!slice && failed(sliceInput(batch, number, operand, slice)))
    return failure();
  microbatch.values.map(value, slice);
  return success();
}

LogicalResult StepWriter::sliceInput(Batch &batch, unsigned number, OpOperand &user, Value &slice) {
  auto type = cast<RankedTensorType>(user.get().getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin(), options.microbatches);
  SmallVector<int64_t> starts(shape.size(), 0), limits = shape, strides(shape.size(), 1);
  starts[0] = number;
  limits[0] = number + 1;
  if (failed(places.follow(user.getOwner(), SmallVector<Value>(user.getOwner()->getNumResults()))))
    return failure();
  Layout own = *places.find(user.get());
  dist::PlaceAttr place = dist::getPlace(user.getOwner());
  auto with = [&](int64_t size) {
    Layout layout = own;
    layout.dims.insert(layout.dims.begin(), {dist::Part{size, {}, {}}});
    return layout;
  };
  unsigned argument = cast<BlockArgument>(user.get()).getArgNumber();
  Location location = dfg::getNodeLocation(builder.getContext(), forward.getInputName(argument), "Microbatch");
  auto rowsType = RankedTensorType::get(shape, type.getElementType());
  Value rows;
  if (part != StepPart::Whole && &batch == &batches[0]) {
    auto carriedRows = readCarried(user.get(), std::nullopt, place.getMesh(), rowsType, with(options.microbatches));
    if (failed(carriedRows))
      return failure();
    rows = *carriedRows;
  }
  places.begin(place.getMesh(), place.getBy());
  recorder.take();
  if (!rows)
    rows = dfg::ReshapeOp::create(builder, location, rowsType, body->getArgument(argument));
  Value row = dfg::SliceOp::create(builder, location, rows, starts, limits, strides);
  slice = dfg::ReshapeOp::create(builder, location, type, row);
  places.hint(rows, with(options.microbatches));
  places.hint(row, with(1));
  places.hint(slice, own);
  return places.place(recorder.take());
}

} // namespace cleave
