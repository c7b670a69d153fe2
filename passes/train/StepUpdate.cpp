// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The end of a step: parameters and state get their next values, and the losses are given out.

#include "passes/train/StepWriter.h"

#include "passes/planner/ModelNode.h"
#include "passes/train/Clipping.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <numeric>

using namespace mlir;

namespace cleave {

using dist::Layout;

LogicalResult StepWriter::placeCreated(FlatSymbolRefAttr mesh, StringRef by,
                                       ArrayRef<std::pair<Value, Layout>> values) {
  places.begin(mesh, builder.getStringAttr(by));
  for (const auto &[value, layout] : values)
    places.hint(value, layout);
  return places.place(recorder.take());
}

FailureOr<Value> StepWriter::sumAtHome(Parameter &parameter) {
  FlatSymbolRefAttr home = dist::getPlace(parameter.read).getMesh();
  Value sum;
  for (const GradientSum &gradient : parameter.gradients) {
    if (!sum) {
      sum = gradient.value;
      continue;
    }
    recorder.take();
    // The parameter's, which runs where none of the operators need run that its gradients are of.
    Location location = partOf(parameter.read.getLoc(), "gradient");
    Value added = dfg::AddOp::create(builder, location, sum, gradient.value);
    if (failed(placeCreated(home, "gradient", {{added, parameter.home}})))
      return failure();
    sum = added;
  }
  return sum;
}

FlatSymbolRefAttr declareState(ModuleOp module, StringRef name, RankedTensorType type, double first) {
  OpBuilder builder(module.getBody(), module.getBody()->begin());
  auto value = dfg::FillAttr::get(module.getContext(), builder.getF64FloatAttr(first));
  dfg::ParameterOp::create(builder, dfg::getNodeLocation(module.getContext(), name, "State"), name, type, value, true);
  return FlatSymbolRefAttr::get(module.getContext(), name);
}

FailureOr<dfg::ReadOp> StepWriter::addState(StringRef name, RankedTensorType type, double first, FlatSymbolRefAttr mesh,
                                            const Layout &layout) {
  // What drains a pipeline works on the state of the steps.
  if (part != StepPart::Drain)
    declareState(module, name, type, first);
  Location location = dfg::getNodeLocation(builder.getContext(), name, "State");
  recorder.take();
  auto read = dfg::ReadOp::create(builder, location, type, FlatSymbolRefAttr::get(builder.getContext(), name));
  if (failed(placeCreated(mesh, "optimizer", {{read, layout}})))
    return failure();
  return read;
}

LogicalResult StepWriter::writeState(FlatSymbolRefAttr name, Location location, Value value, FlatSymbolRefAttr mesh,
                                     const Layout &layout) {
  recorder.take();
  dfg::WriteOp::create(builder, location, name, value);
  return placeCreated(mesh, "optimizer", {{value, layout}});
}

/// The numbers of gradients in the order in which they are there: so the first that can be updated are.
static std::vector<size_t> orderOfGradients(ArrayRef<Value> gradients) {
  std::vector<size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::stable_sort(order, [&](size_t left, size_t right) {
    Operation *first = gradients[left].getDefiningOp(), *second = gradients[right].getDefiningOp();
    return second && (!first || first->isBeforeInBlock(second));
  });
  return order;
}

LogicalResult StepWriter::update() {
  SmallVector<Parameter *> trained;
  for (auto &[name, parameter] : parameters)
    if (!parameter.gradients.empty())
      trained.push_back(&parameter);
  if (trained.empty())
    return forward.emitError("training expects the loss to depend on a floating-point parameter of the model; found "
                             "none");
  SmallVector<Value> gradients;
  for (Parameter *parameter : trained) {
    auto sum = sumAtHome(*parameter);
    if (failed(sum))
      return failure();
    gradients.push_back(*sum);
    changed.trained.push_back(
        {parameter->read.getParameterAttr(), *sum, dist::getPlace(parameter->read).getMesh(), parameter->home});
  }
  std::vector<size_t> order = orderOfGradients(gradients);
  if (failed(clip(trained, gradients)))
    return failure();
  auto scalars = countStep(dist::getPlace(trained.front()->read).getMesh());
  if (failed(scalars))
    return failure();
  for (size_t index : order)
    if (failed(updateParameter(*trained[index], gradients[index], *scalars)))
      return failure();
  return success();
}

LogicalResult StepWriter::writeForwardState() {
  bool doesStep = part != StepPart::Fill, begins = part == StepPart::Fill || part == StepPart::Steady;
  for (auto [index, stage] : llvm::enumerate(stages))
    for (Operation *op : stage.operators) {
      auto write = dyn_cast<dfg::WriteOp>(op);
      unsigned ahead = begins ? numAhead[index] : 0;
      if (!write || (ahead == 0 && !doesStep))
        continue;
      Microbatch &last = ahead ? batches[1].microbatches[ahead - 1] : batches[0].microbatches.back();
      FlatSymbolRefAttr name = write.getParameterAttr();
      const Parameter &parameter = parameters.find(name)->second;
      changed.written.push_back(name);
      if (failed(writeState(name, op->getLoc(), last.nextValues.lookup(name).first,
                            dist::getPlace(parameter.read).getMesh(), parameter.home)))
        return failure();
    }
  return success();
}

FailureOr<Value> StepWriter::addLearningRate(Value count, FlatSymbolRefAttr mesh) {
  auto type = RankedTensorType::get({}, builder.getF64Type());
  SmallVector<Value> numbers;
  SmallVector<std::pair<Value, Layout>, 5> layouts;
  for (auto [name, member] : runtime::rateParameters) {
    if (part != StepPart::Drain)
      declareState(module, name, type, options.optimizer.learningRate.*member);
    // Steps do not write it: it has no home, and whoever reads it loads it once.
    numbers.push_back(dfg::ReadOp::create(builder, dfg::getNodeLocation(builder.getContext(), name, "State"), type,
                                          FlatSymbolRefAttr::get(builder.getContext(), name)));
    layouts.emplace_back(numbers.back(), Layout::whole(type));
  }
  recorder.take();
  Value rate = buildLearningRate(builder, count.getLoc(), numbers, count);
  if (failed(placeCreated(mesh, "optimizer", layouts)))
    return failure();
  return rate;
}

FailureOr<StepScalars> StepWriter::countStep(FlatSymbolRefAttr mesh) {
  // Before all tasks: other stages of a pipeline must not wait for the last of this one's.
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(body);
  auto type = RankedTensorType::get({}, builder.getI64Type());
  auto count = addState(stepParameterName, type, 0, mesh, Layout::whole(type));
  if (failed(count))
    return failure();
  auto rate = addLearningRate(*count, mesh);
  if (failed(rate))
    return failure();
  recorder.take();
  Location location = count->getLoc();
  Value one = dfg::ConstantOp::create(builder, location, DenseElementsAttr::get(type, int64_t(1)));
  Value next = dfg::AddOp::create(builder, location, *count, one);
  StepScalars scalars = buildStepScalars(builder, location, options.optimizer, *rate, *count);
  if (failed(placeCreated(mesh, "optimizer", {})) ||
      failed(writeState(count->getParameterAttr(), location, next, mesh, Layout::whole(type))))
    return failure();
  return scalars;
}

LogicalResult StepWriter::clip(ArrayRef<Parameter *> trained, SmallVector<Value> &gradients) {
  if (options.clipNorm <= 0)
    return success();
  llvm::DenseMap<Value, Layout> known;
  for (auto [parameter, gradient] : llvm::zip_equal(trained, gradients))
    known.try_emplace(gradient, parameter->updated);
  Location location = dfg::getNodeLocation(builder.getContext(), "clip", "ClipNorm");
  recorder.take();
  gradients = clipByGlobalNorm(builder, location, gradients, options.clipNorm);
  for (Operation *op : recorder.take()) {
    auto placed = llvm::find_if(op->getOperands(), [](Value operand) {
      return operand.getDefiningOp() && dist::getPlace(operand.getDefiningOp());
    });
    if (placed == op->operand_end())
      continue;
    places.begin(dist::getPlace((*placed).getDefiningOp()).getMesh(), builder.getStringAttr("optimizer"));
    if (auto layout = known.find(op->getOperand(0)); layout != known.end())
      places.hint(op->getOperand(0), layout->second);
    if (failed(places.place(op)))
      return failure();
  }
  return success();
}

LogicalResult StepWriter::updateParameter(Parameter &parameter, Value gradient, const StepScalars &scalars) {
  dfg::ReadOp read = parameter.read;
  FlatSymbolRefAttr mesh = dist::getPlace(read).getMesh();
  Layout layout = parameter.updated;
  auto type = cast<RankedTensorType>(read.getType());
  bool isInHost = options.of(mesh).optimizerInHost;
  SmallVector<dfg::ReadOp> states;
  SmallVector<Value> values;
  for (const StateSpec &spec : stateOf(options.optimizer)) {
    auto state = addState((read.getParameter() + "/" + spec.suffix).str(), type, spec.initial, mesh, layout);
    if (failed(state))
      return failure();
    states.push_back(*state);
  }
  Location location =
      dfg::getNodeLocation(builder.getContext(), (read.getParameter() + "/update").str(), options.optimizer.name());
  recorder.take();
  for (dfg::ReadOp state : states)
    values.push_back(isInHost ? dfg::FetchOp::create(builder, partOf(state.getLoc(), "fetch"), state).getResult()
                              : state.getResult());
  Update update = buildUpdate(builder, location, options.optimizer, read, gradient, values, scalars);
  SmallVector<Value> next(update.state);
  if (isInHost)
    for (auto [state, value] : llvm::zip_equal(states, next))
      value = dfg::OffloadOp::create(builder, partOf(state.getLoc(), "offload"), value);
  std::vector<std::pair<Value, Layout>> hints{{read, layout}, {gradient, layout}, {update.parameter, layout}};
  for (Value value : llvm::concat<Value>(values, update.state, next))
    hints.emplace_back(value, layout);
  if (failed(placeCreated(mesh, "optimizer", hints)) ||
      failed(writeState(read.getParameterAttr(), location, update.parameter, mesh, parameter.home)))
    return failure();
  for (auto [state, value] : llvm::zip_equal(states, next))
    if (failed(writeState(state.getParameterAttr(), location, value, mesh, layout)))
      return failure();
  return success();
}

LogicalResult StepWriter::finish() {
  SmallVector<Value> results;
  std::vector<Microbatch> &microbatches = batches[0].microbatches;
  for (Value output : forward.getBody().front().getTerminator()->getOperands()) {
    if (part == StepPart::Fill)
      break;
    Operation *maker = output.getDefiningOp();
    if (!maker || followsItsUsers(maker))
      return forward.emitError("training expects outputs that operators compute");
    bool isMean = results.empty();
    recorder.take();
    Value sum;
    for (Microbatch &microbatch : microbatches) {
      Value own = microbatch.values.lookup(output);
      if (isMean && microbatch.share)
        own = dfg::MulOp::create(builder, output.getLoc(), own, microbatch.share);
      sum = sum ? dfg::AddOp::create(builder, output.getLoc(), sum, own).getResult() : own;
    }
    if (isMean && options.microbatches > 1 && !microbatches.front().share) {
      auto type = cast<RankedTensorType>(output.getType());
      auto part = FloatAttr::get(type.getElementType(), 1.0 / options.microbatches);
      Value factor = dfg::ConstantOp::create(builder, output.getLoc(), DenseElementsAttr::get(type, part));
      sum = dfg::MulOp::create(builder, output.getLoc(), sum, factor);
    }
    if (failed(placeCreated(dist::getPlace(maker).getMesh(), "loss", {{sum, wholeOf(sum)}})))
      return failure();
    results.push_back(sum);
  }
  dfg::ReturnOp::create(builder, forward.getLoc(), results);
  return success();
}

void removeUnused(dfg::GraphOp graph) {
  for (Operation *op = graph.getBody().front().getTerminator(); op;) {
    Operation *before = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
    op = before;
  }
}

} // namespace cleave
