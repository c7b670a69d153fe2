// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pipelines that do not drain: what a step leaves to the next one. A step finds its batch begun: the forwards that fill
// the pipeline are done, and at its end it does those of the next batch. Between steps the activations of these lie in
// parameters, as the optimizer's state does; so does the batch itself, and the version of the weights that it was begun
// with, which is that of its gradients.

#include "passes/train/StepWriter.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

LogicalResult StepWriter::checkDelay() {
  if (options.schedule.drains())
    return success();
  auto expect = [&](const Twine &text) -> LogicalResult {
    return forward.emitError("schedule ") << options.schedule->name << " expects " << text;
  };
  auto count = static_cast<unsigned>(stages.size());
  if (possibleSchedule(stages, options.schedule) != options.schedule || count < 2)
    return expect("stages that form one chain over two devices or more, each with a stage of its own; give --degrees "
                  "pipeline=N or --place");
  if (count > options.schedule->mostStages(options.microbatches))
    return expect("as many microbatches as stages, " + Twine(count) + ", or more; got " + Twine(options.microbatches) +
                  "; give --microbatches");
  for (const Stage &stage : stages)
    if (options.of(stage.mesh).kept == KeptActivations::InHost)
      return expect("activations on the devices; give --recompute none, selective or full");
  for (const Stage &stage : stages)
    if (options.of(stage.mesh).optimizerInHost)
      return expect("the optimizer's state on the devices; give --optimizer-memory device");
  for (const Stage &stage : stages)
    if (options.of(stage.mesh).zero > 2)
      return expect("whole parameters on all replicas; give --zero 0, 1 or 2");
  for (Value output : forward.getBody().front().getTerminator()->getOperands())
    if (Operation *maker = output.getDefiningOp(); !maker || !llvm::is_contained(stages.back().operators, maker))
      return expect("the last stage to compute the loss and all other outputs");
  return success();
}

static std::string previousName(StringRef parameter) { return (pipelinePrefix + "previous/" + parameter).str(); }

FailureOr<dfg::ReadOp> StepWriter::readInFlight(StringRef name, RankedTensorType type, FlatSymbolRefAttr mesh,
                                                const Layout &layout) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(body);
  SmallVector<Operation *> others = recorder.take();
  Location location = dfg::getNodeLocation(builder.getContext(), name, "State");
  auto read = dfg::ReadOp::create(builder, location, type, FlatSymbolRefAttr::get(builder.getContext(), name));
  LogicalResult placed = placeCreated(mesh, "pipeline", {{read, layout}});
  recorder.operators = std::move(others);
  if (failed(placed))
    return failure();
  return read;
}

static bool reads(dfg::GraphOp graph, StringRef parameter) {
  return llvm::any_of(graph.getBody().front().getOps<dfg::ReadOp>(),
                      [&](dfg::ReadOp read) { return read.getParameter() == parameter; });
}

bool StepWriter::isDelayed(FlatSymbolRefAttr parameter) {
  if (writers.contains(parameter))
    return false;
  if (part == StepPart::Fill)
    return reads(module.lookupSymbol<dfg::GraphOp>(trainGraphName), previousName(parameter.getValue()));
  if (!options.schedule->delaysBegunOnly)
    return true;
  return llvm::any_of(forward.getBody().front().getOps<dfg::ReadOp>(), [&](dfg::ReadOp read) {
    return read.getParameterAttr() == parameter &&
           llvm::any_of(read->getUsers(), [&](Operation *user) { return numAhead[stageOf.lookup(user)] != 0; });
  });
}

Value StepWriter::versionOf(Batch &batch, dfg::ReadOp read, unsigned number, unsigned stage) {
  bool isNewest = options.schedule->delaysBegunOnly && !isCarried(batch, number, stage);
  return (isNewest ? batches[1] : batch).shared.lookup(read.getResult());
}

LogicalResult StepWriter::readPrevious(Parameter &parameter) {
  parameter.previous = parameter.read;
  if (part == StepPart::Whole || part == StepPart::Fill || !isDelayed(parameter.read.getParameterAttr()))
    return success();
  auto read =
      readInFlight(previousName(parameter.read.getParameter()), cast<RankedTensorType>(parameter.read.getType()),
                   dist::getPlace(parameter.read).getMesh(), parameter.home);
  if (failed(read))
    return failure();
  parameter.previous = *read;
  return success();
}

//===-- reads -----------------------------------------------------------------------------------------------===//

FailureOr<Value> StepWriter::readCarried(Value of, std::optional<unsigned> number, FlatSymbolRefAttr mesh,
                                         RankedTensorType type, const Layout &layout) {
  auto [entry, isNew] = carried.try_emplace({of.getAsOpaquePointer(), number, mesh.getAsOpaquePointer()});
  CarriedValue &value = entry->second;
  if (isNew) {
    auto argument = dyn_cast<BlockArgument>(of);
    StringRef node = argument ? forward.getInputName(argument.getArgNumber()) : dfg::getNodeName(of.getLoc());
    value.name = (pipelinePrefix + Twine(carried.size() - 1) + "/" + node).str();
    value.type = type;
    value.layout = layout;
    value.layout.partial.clear();
    value.layout.combiner = Combiner::None;
  }
  Value &read = carriedReads[value.name];
  if (!read) {
    auto made = readInFlight(value.name, value.type, mesh, value.layout);
    if (failed(made))
      return failure();
    read = *made;
  }
  return read;
}

FailureOr<Value> StepWriter::readResult(OpResult result, unsigned number) {
  auto layouts = places.layoutsOf(result.getOwner());
  if (failed(layouts))
    return failure();
  return readCarried(result, number, dist::getPlace(result.getOwner()).getMesh(),
                     cast<RankedTensorType>(result.getType()), layouts->results[result.getResultNumber()]);
}

LogicalResult StepWriter::provideCarried(Batch &batch, unsigned number, OpOperand &operand) {
  auto result = cast<OpResult>(operand.get());
  Operation *producer = result.getOwner(), *user = operand.getOwner();
  if (!ofBatch.contains(result))
    return computeAgain(batch, number, producer);
  FailureOr<Value> read;
  FlatSymbolRefAttr mesh = dist::getPlace(user).getMesh();
  if (dist::getPlace(producer).getMesh() == mesh) {
    read = readResult(result, number);
  } else {
    if (failed(places.follow(user, SmallVector<Value>(user->getNumResults()))))
      return failure();
    read = readCarried(result, number, mesh, cast<RankedTensorType>(result.getType()), *places.find(result));
  }
  if (failed(read))
    return failure();
  batch.microbatches[number].values.map(result, *read);
  return success();
}

LogicalResult StepWriter::computeAgain(Batch &batch, unsigned number, Operation *op) {
  IRMapping &values = batch.microbatches[number].values;
  if (values.contains(op->getResult(0)))
    return success();
  for (OpOperand &operand : op->getOpOperands())
    if (failed(provide(batch, number, operand)))
      return failure();
  builder.clone(*op, values);
  recorder.take();
  return success();
}

//===-- backward tasks --------------------------------------------------------------------------------------===//

LogicalResult StepWriter::copyCarried(Batch &batch, unsigned number, unsigned stage) {
  IRMapping &known = batch.microbatches[number].values;
  for (Operation *op : stages[stage].operators) {
    if (isa<dfg::WriteOp>(op))
      continue;
    if (!ofBatch.contains(op->getResult(0))) {
      if (failed(computeAgain(batch, number, op)))
        return failure();
      used[op] = known.lookup(op->getResult(0)).getDefiningOp();
      continue;
    }
    IRMapping values;
    for (OpOperand &operand : op->getOpOperands()) {
      if (failed(provide(batch, number, operand)))
        return failure();
      values.map(operand.get(), known.lookup(operand.get()));
    }
    used[op] = builder.clone(*op, values);
    recorder.take();
  }
  return success();
}

LogicalResult StepWriter::useCarried(Batch &batch, unsigned number, unsigned stage) {
  for (Operation *op : llvm::reverse(stages[stage].operators)) {
    if (isa<dfg::WriteOp>(op) || !ofBatch.contains(op->getResult(0)))
      continue;
    if (failed(useFirst(batch, number, op)))
      return failure();
    used[op]->erase();
    used.erase(op);
  }
  return success();
}

//===-- the next step ---------------------------------------------------------------------------------------===//

LogicalResult StepWriter::carry() {
  auto leave = [&](StringRef name, Value value, FlatSymbolRefAttr mesh, const Layout &layout) {
    // Whoever fills a pipeline leaves all that steps read, and nothing else.
    if (part == StepPart::Fill)
      declareState(module, name, cast<RankedTensorType>(value.getType()), 0);
    Location location = dfg::getNodeLocation(builder.getContext(), name, "State");
    return writeState(FlatSymbolRefAttr::get(builder.getContext(), name), location, value, mesh, layout);
  };
  for (auto &[name, parameter] : parameters)
    if (isDelayed(parameter.read.getParameterAttr()) &&
        failed(leave(previousName(parameter.read.getParameter()), parameter.read,
                     dist::getPlace(parameter.read).getMesh(), parameter.home)))
      return failure();
  for (auto &[key, value] : carried) {
    if (!value.isRead)
      continue;
    auto [pointer, number, meshPointer] = key;
    Value of = Value::getFromOpaquePointer(pointer);
    auto mesh = cast<FlatSymbolRefAttr>(Attribute::getFromOpaquePointer(meshPointer));
    Value next;
    if (number) {
      next = batches[1].microbatches[*number].values.lookup(of);
    } else {
      auto argument = cast<BlockArgument>(of);
      recorder.take();
      Location location =
          dfg::getNodeLocation(builder.getContext(), forward.getInputName(argument.getArgNumber()), "Microbatch");
      next = dfg::ReshapeOp::create(builder, location, value.type, body->getArgument(argument.getArgNumber()));
      if (failed(placeCreated(mesh, "pipeline", {{next, value.layout}})))
        return failure();
    }
    if (failed(leave(value.name, next, mesh, value.layout)))
      return failure();
  }
  return success();
}

void StepWriter::removeUncarried() {
  llvm::StringSet<> names;
  for (auto read : body->getOps<dfg::ReadOp>())
    names.insert(read.getParameter());
  for (auto write : llvm::make_early_inc_range(body->getOps<dfg::WriteOp>()))
    if (write.getParameter().starts_with(pipelinePrefix) && !names.contains(write.getParameter()))
      write.erase();
  removeUnused(step);
  for (auto &[key, value] : carried)
    value.isRead = names.contains(value.name);
}

} // namespace cleave
