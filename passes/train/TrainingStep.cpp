// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the step task by task.

#include "passes/train/TrainingStep.h"

#include "passes/planner/ModelNode.h"
#include "passes/train/Clipping.h"
#include "passes/train/GradientPlaces.h"
#include "passes/train/TaskOrder.h"

#include "dialects/dist/Accumulation.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace cleave {
namespace {

using dist::Layout;
using stages::TaskKind;

/// Remembers the operators that are created.
struct Recorder : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { operators.push_back(op); }
  SmallVector<Operation *> take() { return std::exchange(operators, {}); }
  SmallVector<Operation *> operators;
};

/// A part of the node that `location` is of: "conv1/gradient".
Location partOf(Location location, StringRef part) {
  StringRef name = dfg::getNodeName(location);
  return dfg::getNodeLocation(location.getContext(), (name + "/" + part).str(), dfg::getNodeKind(location));
}

bool isFloat(Value value) { return isa<FloatType>(cast<ShapedType>(value.getType()).getElementType()); }

class StepWriter {
public:
  StepWriter(dfg::GraphOp forward, const TrainingOptions &options)
      : forward(forward), module(forward->getParentOfType<ModuleOp>()), options(options), stages(findStages(forward)),
        places(module), builder(forward.getContext(), &recorder) {}

  FailureOr<dfg::GraphOp> write() {
    if (failed(check()) || failed(createGraph()))
      return failure();
    findActive();
    if (failed(readParameters()))
      return failure();
    microbatches.resize(options.microbatches);
    for (const StageTask &task : orderTasks(stages, options.schedule, options.microbatches))
      if (failed(writeTask(task)))
        return failure();
    if (failed(update()) || failed(finish()))
      return failure();
    removeUnused();
    return step;
  }

private:
  /// A parameter that the step reads, and writes if it is trained or the forward graph writes it.
  struct Parameter {
    dfg::ReadOp read; ///< In the step, placed at home.
    Layout home;      ///< Of it.
    /// By mesh: the sum of its gradients so far, and how it lies.
    llvm::MapVector<Attribute, Value> gradients;
  };

  /// What there is of a microbatch.
  struct Microbatch {
    IRMapping values; ///< From the forward graph's.
    /// Cotangents of values of the step.
    llvm::DenseMap<Value, Value> cotangents;
    /// By stage: gradients of weights that are to be moved behind.
    std::map<unsigned, SmallVector<Operation *>> weightGradients;
  };

  //===-- the frame -------------------------------------------------------------------------------------------===//

  LogicalResult check() {
    if (forward.getResultTypes().empty())
      return forward.emitError("training expects the model to return a loss, got no results");
    auto loss = cast<RankedTensorType>(forward.getResultTypes().front());
    if (loss.getRank() != 0 || !isa<FloatType>(loss.getElementType()))
      return forward.emitError("training expects a scalar loss as the first result, got ") << loss;
    for (auto [index, type] : llvm::enumerate(forward.getArgumentTypes()))
      if (cast<RankedTensorType>(type).getRank() == 0)
        return forward.emitError("training expects every input to have its samples in dimension 0, got input \"")
               << forward.getInputName(index) << "\" of type " << type;
    return success();
  }

  LogicalResult createGraph() {
    SmallVector<Type> inputs;
    for (Type type : forward.getArgumentTypes()) {
      auto tensor = cast<RankedTensorType>(type);
      SmallVector<int64_t> shape(tensor.getShape());
      shape.front() *= options.microbatches;
      inputs.push_back(RankedTensorType::get(shape, tensor.getElementType()));
    }
    builder.setInsertionPointAfter(forward);
    auto type = builder.getFunctionType(inputs, forward.getResultTypes());
    step = dfg::GraphOp::create(builder, forward.getLoc(), trainGraphName, type);
    if (auto attributes = forward.getArgAttrsAttr())
      step.setArgAttrsAttr(attributes);
    if (auto attributes = forward.getResAttrsAttr())
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

  /// Which values depend on parameters that are trained.
  void findActive() {
    SymbolTable symbols(module);
    for (Operation &op : forward.getBody().front()) {
      bool isActive = llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); });
      if (auto read = dyn_cast<dfg::ReadOp>(op)) {
        auto parameter = symbols.lookup<dfg::ParameterOp>(read.getParameter());
        isActive = !parameter.getState() && isFloat(read);
      }
      if (isActive)
        active.insert(op.result_begin(), op.result_end());
    }
  }

  /// Constants and parameters come first. A parameter that is trained, or written by the graph, has its home with its
  /// first user, and lies as that takes it.
  LogicalResult readParameters() {
    llvm::DenseSet<Attribute> written;
    for (auto write : forward.getBody().front().getOps<dfg::WriteOp>())
      written.insert(write.getParameterAttr());
    for (Operation &op : forward.getBody().front()) {
      if (!followsItsUsers(&op))
        continue;
      auto read = dyn_cast<dfg::ReadOp>(op);
      bool isKept = read && (active.contains(read) || written.contains(read.getParameterAttr()));
      if (!isKept || read->use_empty()) {
        builder.clone(op, shared);
        continue;
      }
      if (auto known = parameters.find(read.getParameterAttr()); known != parameters.end()) {
        shared.map(read.getResult(), known->second.read.getResult());
        continue;
      }
      Parameter parameter;
      parameter.read = cast<dfg::ReadOp>(builder.clone(op, shared));
      if (failed(findHome(read, parameter)))
        return failure();
      parameters[read.getParameterAttr()] = std::move(parameter);
    }
    recorder.take();
    return success();
  }

  LogicalResult findHome(dfg::ReadOp read, Parameter &parameter) {
    OpOperand *first = nullptr;
    for (OpOperand &use : read->getUses())
      if (!isa<dfg::ReturnOp>(use.getOwner()) && (!first || use.getOwner()->isBeforeInBlock(first->getOwner())))
        first = &use;
    if (!first)
      return read.emitOpError("is given out as it is: training expects parameters to be used");
    if (failed(places.follow(first->getOwner(), SmallVector<Value>(first->getOwner()->getNumResults()))))
      return failure();
    FlatSymbolRefAttr mesh = dist::getPlace(first->getOwner()).getMesh();
    parameter.home = *places.find(first->get());
    if (options.of(mesh).zero == 3 && active.contains(read))
      parameter.home = shareReplicas(parameter.home, places.shapeOf(mesh));
    recorder.operators = {parameter.read};
    return placeCreated(mesh, "home", {{parameter.read, parameter.home}});
  }

  /// The layout with the axes over which a parameter is replicated cutting a dimension, as far as one divides: the
  /// first whose blocks come out even.
  Layout shareReplicas(Layout layout, const dist::MeshShape &mesh) {
    for (StringAttr axis : mesh.getAxes()) {
      if (layout.uses(axis) || *mesh.find(axis) == 1)
        continue;
      for (dist::DimParts &parts : layout.dims) {
        if (parts.size() != 1 || parts.front().localSize(mesh) % *mesh.find(axis) != 0 || parts.front().isPadded(mesh))
          continue;
        parts.front().axes.push_back(axis);
        break;
      }
    }
    layout.canonicalize(mesh);
    return layout;
  }

  //===-- forward ---------------------------------------------------------------------------------------------===//

  LogicalResult writeTask(const StageTask &task) {
    switch (task.kind) {
    case TaskKind::Forward:
      return writeForward(task.microbatch, task.stage);
    case TaskKind::Backward:
      return writeBackward(task.microbatch, task.stage);
    case TaskKind::BackwardInput:
      if (failed(writeBackward(task.microbatch, task.stage)))
        return failure();
      setAsideWeights(task.microbatch, task.stage);
      return success();
    case TaskKind::BackwardWeight:
      for (Operation *op : microbatches[task.microbatch].weightGradients[task.stage])
        op->moveBefore(body, body->end());
      return success();
    }
    llvm_unreachable("tasks are listed above");
  }

  LogicalResult writeForward(unsigned number, unsigned stage) {
    Microbatch &microbatch = microbatches[number];
    for (Operation *op : stages[stage].operators) {
      if (auto write = dyn_cast<dfg::WriteOp>(op)) {
        nextValues[write.getParameterAttr()] = {microbatch.values.lookup(write.getValue()), op};
        continue;
      }
      for (OpOperand &operand : op->getOpOperands())
        if (failed(provide(microbatch, number, operand)))
          return failure();
      Operation *copy = builder.clone(*op, microbatch.values);
      for (OpOperand &operand : op->getOpOperands())
        if (auto read = operand.get().getDefiningOp<dfg::ReadOp>())
          copy->setOperand(operand.getOperandNumber(), valueOf(read));
    }
    recorder.take();
    return success();
  }

  /// The parameter as the next operator sees it: what the graph itself wrote in an earlier microbatch, or the read.
  Value valueOf(dfg::ReadOp read) {
    auto next = nextValues.find(read.getParameterAttr());
    return next != nextValues.end() ? next->second.first : shared.lookup(read.getResult());
  }

  /// Makes the operand known to the microbatch: what all share, or its samples of an input.
  LogicalResult provide(Microbatch &microbatch, unsigned number, OpOperand &operand) {
    Value value = operand.get();
    if (Operation *producer = value.getDefiningOp()) {
      if (followsItsUsers(producer))
        microbatch.values.map(value, shared.lookup(value));
      return success();
    }
    auto argument = cast<BlockArgument>(value);
    FlatSymbolRefAttr mesh = dist::getPlace(operand.getOwner()).getMesh();
    Value whole = body->getArgument(argument.getArgNumber());
    if (options.microbatches == 1) {
      microbatch.values.map(value, whole);
      return success();
    }
    Value &slice = slices[{argument.getArgNumber(), mesh.getAsOpaquePointer(), number}];
    if (!slice && failed(sliceInput(whole, number, operand, slice)))
      return failure();
    microbatch.values.map(value, slice);
    return success();
  }

  /// The samples of a microbatch: [M * b, …] as [M, b, …], of which the data axis cuts b, so that no sample moves.
  LogicalResult sliceInput(Value whole, unsigned number, OpOperand &user, Value &slice) {
    auto type = cast<RankedTensorType>(user.get().getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.begin(), options.microbatches);
    SmallVector<int64_t> starts(shape.size(), 0), limits = shape, strides(shape.size(), 1);
    starts[0] = number;
    limits[0] = number + 1;
    if (failed(places.follow(user.getOwner(), SmallVector<Value>(user.getOwner()->getNumResults()))))
      return failure();
    Layout part = *places.find(user.get());
    dist::PlaceAttr place = dist::getPlace(user.getOwner());
    places.begin(place.getMesh(), place.getBy());
    unsigned argument = cast<BlockArgument>(user.get()).getArgNumber();
    Location location = dfg::getNodeLocation(builder.getContext(), forward.getInputName(argument), "Microbatch");
    recorder.take();
    Value rows = dfg::ReshapeOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()), whole);
    Value row = dfg::SliceOp::create(builder, location, rows, starts, limits, strides);
    slice = dfg::ReshapeOp::create(builder, location, type, row);
    auto with = [&](int64_t size) {
      Layout layout = part;
      layout.dims.insert(layout.dims.begin(), {dist::Part{size, {}, {}}});
      return layout;
    };
    places.hint(rows, with(options.microbatches));
    places.hint(row, with(1));
    places.hint(slice, part);
    return places.place(recorder.take());
  }

  //===-- backward --------------------------------------------------------------------------------------------===//

  /// Finds the operators from which the microbatch's gradients are computed: those of its forward task, or new ones
  /// that compute again what is not kept. Of an operator whose results are kept there is a copy on the operands that
  /// are computed again, whose results nobody may use.
  LogicalResult recompute(unsigned number, unsigned stage) {
    Microbatch &microbatch = microbatches[number];
    KeptActivations kept = options.of(stages[stage].mesh).kept;
    used.clear();
    if (kept == KeptActivations::All) {
      for (Operation *op : stages[stage].operators)
        if (op->getNumResults())
          used[op] = microbatch.values.lookup(op->getResult(0)).getDefiningOp();
      return success();
    }
    IRMapping values = microbatch.values;
    llvm::DenseSet<Value> seen;
    for (Operation *op : stages[stage].operators) {
      if (isa<dfg::WriteOp>(op))
        continue;
      for (OpOperand &operand : op->getOpOperands())
        if (Operation *producer = operand.get().getDefiningOp();
            (!producer || !followsItsUsers(producer)) && seen.insert(operand.get()).second)
          if (failed(seeAgain(operand, microbatch.values.lookup(operand.get()), values)))
            return failure();
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

  static bool isKept(Operation *op, KeptActivations kept) {
    auto cost = dyn_cast<CostInterface>(op);
    return kept == KeptActivations::Products && cost && cost.getCost().costClass == CostClass::Contraction;
  }

  /// What is kept is seen through a barrier, so that it is not joined with the first computation.
  LogicalResult seeAgain(OpOperand &operand, Value kept, IRMapping &values) {
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

  static Attribute nameOf(Operation *producer) {
    auto read = dyn_cast<dfg::ReadOp>(producer);
    return read ? Attribute(read.getParameterAttr()) : Attribute();
  }

  LogicalResult writeBackward(unsigned number, unsigned stage) {
    Microbatch &microbatch = microbatches[number];
    taskOperators.clear();
    recorder.take();
    if (failed(recompute(number, stage)))
      return failure();
    seedLoss(microbatch, stage);
    for (Operation *op : llvm::reverse(stages[stage].operators)) {
      if (failed(differentiate(microbatch, op)))
        return failure();
      if (isKept(op, options.of(stages[stage].mesh).kept))
        for (auto [result, copy] : llvm::zip_equal(op->getResults(), used[op]->getResults()))
          copy.replaceAllUsesWith(microbatch.values.lookup(result));
    }
    return success();
  }

  /// The loss's own cotangent: the step's loss is the mean of those of its microbatches.
  void seedLoss(Microbatch &microbatch, unsigned stage) {
    Value loss = forward.getBody().front().getTerminator()->getOperand(0);
    if (!llvm::is_contained(stages[stage].operators, loss.getDefiningOp()))
      return;
    auto type = cast<RankedTensorType>(loss.getType());
    FloatAttr one = FloatAttr::get(type.getElementType(), 1.0 / options.microbatches);
    microbatch.cotangents[microbatch.values.lookup(loss)] =
        dfg::ConstantOp::create(builder, partOf(loss.getLoc(), "gradient"), DenseElementsAttr::get(type, one));
    taskOperators.append(recorder.take());
  }

  LogicalResult differentiate(Microbatch &microbatch, Operation *original) {
    SmallVector<Value> cotangents;
    for (Value result : original->getResults())
      cotangents.push_back(active.contains(result) ? microbatch.cotangents.lookup(microbatch.values.lookup(result))
                                                   : Value());
    if (llvm::none_of(cotangents, [](Value cotangent) { return cotangent != nullptr; }))
      return success();
    SmallVector<bool> needed;
    for (Value operand : original->getOperands())
      needed.push_back(active.contains(operand));
    Operation *op = used[original];
    auto differentiable = dyn_cast<DifferentiateInterface>(op);
    if (!differentiable)
      return original->emitError("the operator has no gradient, and lies between a parameter and the loss; train "
                                 "without it, or give it one (DifferentiateInterface)");
    if (failed(places.follow(op, cotangents)))
      return failure();
    lastPlace = dist::getPlace(op);
    std::vector<Layout> wanted;
    for (Value operand : op->getOperands())
      wanted.push_back(*places.find(operand));
    recorder.take();
    auto made = differentiable.differentiate(builder, {cotangents, needed});
    if (failed(made))
      return failure();
    SmallVector<Operation *> created = recorder.take();
    for (Operation *gradient : created)
      gradient->setLoc(partOf(original->getLoc(), "gradient"));
    for (auto [value, layout] : llvm::zip_equal(*made, wanted))
      if (value)
        places.hint(value, layout);
    if (failed(places.place(created)))
      return failure();
    taskOperators.append(created);
    for (auto [operand, isNeeded, cotangent, layout] : llvm::zip_equal(original->getOperands(), needed, *made, wanted))
      if (isNeeded && cotangent)
        if (failed(addCotangent(microbatch, operand, cotangent)))
          return failure();
    return success();
  }

  /// Adds to the cotangent of a value of the forward graph; that of a parameter is the whole step's.
  LogicalResult addCotangent(Microbatch &microbatch, Value of, Value cotangent) {
    Operation *producer = of.getDefiningOp();
    auto parameter = producer ? parameters.find(nameOf(producer)) : parameters.end();
    Value &sum = parameter != parameters.end() ? parameter->second.gradients[currentMesh(cotangent)]
                                               : microbatch.cotangents[microbatch.values.lookup(of)];
    if (!sum) {
      sum = cotangent;
      return success();
    }
    auto known = places.find(cotangent);
    std::optional<Layout> layout = known ? std::optional(*known) : std::nullopt;
    if (parameter != parameters.end() && options.of(currentMesh(cotangent)).zero >= 2)
      layout = shareReplicas(parameter->second.home, places.shapeOf(currentMesh(cotangent)));
    recorder.take();
    sum = dfg::AddOp::create(builder, cotangent.getLoc(), sum, cotangent);
    if (parameter != parameters.end())
      sum.getDefiningOp()->setAttr(dist::accumulatesAttrName, builder.getUnitAttr());
    SmallVector<Operation *> created = recorder.take();
    dist::PlaceAttr place = placeOf(cotangent);
    places.begin(place.getMesh(), place.getBy());
    if (layout)
      places.hint(sum, *layout);
    taskOperators.append(created);
    return places.place(created);
  }

  /// Of a value of the step; that of a constant is the one of the operator at hand.
  dist::PlaceAttr placeOf(Value value) {
    dist::PlaceAttr place = value.getDefiningOp() ? dist::getPlace(value.getDefiningOp()) : dist::PlaceAttr();
    return place ? place : lastPlace;
  }
  FlatSymbolRefAttr currentMesh(Value value) { return placeOf(value).getMesh(); }

  /// Of the operators that a backward task made, those that no earlier stage needs are to run later.
  void setAsideWeights(unsigned number, unsigned stage) {
    Microbatch &microbatch = microbatches[number];
    llvm::DenseSet<Operation *> members(taskOperators.begin(), taskOperators.end()), needed;
    SmallVector<Operation *> work;
    for (Operation *op : stages[stage].operators)
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        bool isOutside =
            producer && !followsItsUsers(producer) && !llvm::is_contained(stages[stage].operators, producer);
        if (!isOutside)
          continue;
        if (Value cotangent = microbatch.cotangents.lookup(microbatch.values.lookup(operand)))
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

  //===-- the end of the step ---------------------------------------------------------------------------------===//

  /// Places what was created since take(), with `values` lying so.
  LogicalResult placeCreated(FlatSymbolRefAttr mesh, StringRef by, ArrayRef<std::pair<Value, Layout>> values) {
    places.begin(mesh, builder.getStringAttr(by));
    for (const auto &[value, layout] : values)
      places.hint(value, layout);
    return places.place(recorder.take());
  }

  static Layout wholeOf(Value value) { return Layout::whole(cast<ShapedType>(value.getType())); }

  /// The sum of a parameter's gradients on all meshes, at home.
  FailureOr<Value> sumAtHome(Parameter &parameter) {
    FlatSymbolRefAttr home = dist::getPlace(parameter.read).getMesh();
    Value sum;
    for (auto &[mesh, gradient] : parameter.gradients) {
      if (!sum) {
        sum = gradient;
        continue;
      }
      recorder.take();
      Value added = dfg::AddOp::create(builder, gradient.getLoc(), sum, gradient);
      if (failed(placeCreated(home, "gradient", {{added, parameter.home}})))
        return failure();
      sum = added;
    }
    return sum;
  }

  /// A new parameter that lasts from step to step, read where `like` is and in that layout.
  FailureOr<dfg::ReadOp> addState(StringRef name, RankedTensorType type, double first, FlatSymbolRefAttr mesh,
                                  const Layout &layout) {
    OpBuilder atModule(module.getBody(), module.getBody()->begin());
    FloatAttr value = FloatAttr::get(builder.getF64Type(), first);
    Location location = dfg::getNodeLocation(builder.getContext(), name, "State");
    dfg::ParameterOp::create(atModule, location, name, type, dfg::FillAttr::get(builder.getContext(), value), true);
    recorder.take();
    auto read = dfg::ReadOp::create(builder, location, type, FlatSymbolRefAttr::get(builder.getContext(), name));
    if (failed(placeCreated(mesh, "optimizer", {{read, layout}})))
      return failure();
    return read;
  }

  LogicalResult writeState(FlatSymbolRefAttr name, Location location, Value value, FlatSymbolRefAttr mesh,
                           const Layout &layout) {
    recorder.take();
    dfg::WriteOp::create(builder, location, name, value);
    return placeCreated(mesh, "optimizer", {{value, layout}});
  }

  LogicalResult update() {
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
    }
    if (failed(clip(trained, gradients)))
      return failure();
    auto scalars = countStep(dist::getPlace(trained.front()->read).getMesh());
    if (failed(scalars))
      return failure();
    for (auto [parameter, gradient] : llvm::zip_equal(trained, gradients))
      if (failed(updateParameter(*parameter, gradient, *scalars)))
        return failure();
    for (auto &[name, next] : nextValues) {
      Parameter &parameter = parameters.find(name)->second;
      if (failed(writeState(cast<FlatSymbolRefAttr>(name), next.second->getLoc(), next.first,
                            dist::getPlace(parameter.read).getMesh(), parameter.home)))
        return failure();
    }
    return success();
  }

  /// The number of steps done, and what the optimizer derives from it.
  FailureOr<StepScalars> countStep(FlatSymbolRefAttr mesh) {
    auto type = RankedTensorType::get({}, builder.getI64Type());
    auto count = addState(stepParameterName, type, 0, mesh, Layout::whole(type));
    if (failed(count))
      return failure();
    recorder.take();
    Location location = count->getLoc();
    Value one = dfg::ConstantOp::create(builder, location, DenseElementsAttr::get(type, int64_t(1)));
    Value next = dfg::AddOp::create(builder, location, *count, one);
    StepScalars scalars = buildStepScalars(builder, location, options.optimizer, *count);
    if (failed(placeCreated(mesh, "optimizer", {})) ||
        failed(writeState(count->getParameterAttr(), location, next, mesh, Layout::whole(type))))
      return failure();
    return scalars;
  }

  /// How the parts of a parameter lie that devices bring up to date.
  Layout updateLayout(const Parameter &parameter) {
    FlatSymbolRefAttr mesh = dist::getPlace(parameter.read).getMesh();
    return options.of(mesh).zero >= 1 ? shareReplicas(parameter.home, places.shapeOf(mesh)) : parameter.home;
  }

  /// Scales the gradients down where they are too large together. Each operator stands where its first operand does.
  LogicalResult clip(ArrayRef<Parameter *> trained, SmallVector<Value> &gradients) {
    if (options.clipNorm <= 0)
      return success();
    llvm::DenseMap<Value, Layout> known;
    for (auto [parameter, gradient] : llvm::zip_equal(trained, gradients))
      known.try_emplace(gradient, updateLayout(*parameter));
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

  LogicalResult updateParameter(Parameter &parameter, Value gradient, const StepScalars &scalars) {
    dfg::ReadOp read = parameter.read;
    FlatSymbolRefAttr mesh = dist::getPlace(read).getMesh();
    Layout layout = updateLayout(parameter);
    auto type = cast<RankedTensorType>(read.getType());
    SmallVector<dfg::ReadOp> states;
    SmallVector<Value> values;
    for (const StateSpec &spec : stateOf(options.optimizer)) {
      auto state = addState((read.getParameter() + "/" + spec.suffix).str(), type, spec.initial, mesh, layout);
      if (failed(state))
        return failure();
      states.push_back(*state);
      values.push_back(*state);
    }
    Location location =
        dfg::getNodeLocation(builder.getContext(), (read.getParameter() + "/update").str(), options.optimizer.name());
    recorder.take();
    Update update = buildUpdate(builder, location, options.optimizer, read, gradient, values, scalars);
    std::vector<std::pair<Value, Layout>> hints{{read, layout}, {gradient, layout}, {update.parameter, layout}};
    for (Value value : llvm::concat<Value>(values, update.state))
      hints.emplace_back(value, layout);
    if (failed(placeCreated(mesh, "optimizer", hints)) ||
        failed(writeState(read.getParameterAttr(), location, update.parameter, mesh, parameter.home)))
      return failure();
    for (auto [state, next] : llvm::zip_equal(states, update.state))
      if (failed(writeState(state.getParameterAttr(), location, next, mesh, layout)))
        return failure();
    return success();
  }

  /// Gives out the mean of the losses, and the sums of all else.
  LogicalResult finish() {
    SmallVector<Value> results;
    for (Value output : forward.getBody().front().getTerminator()->getOperands()) {
      Operation *maker = output.getDefiningOp();
      if (!maker || followsItsUsers(maker))
        return forward.emitError("training expects outputs that operators compute");
      bool isMean = results.empty();
      recorder.take();
      Value sum;
      for (Microbatch &microbatch : microbatches) {
        Value part = microbatch.values.lookup(output);
        sum = sum ? dfg::AddOp::create(builder, output.getLoc(), sum, part).getResult() : part;
      }
      if (isMean && options.microbatches > 1) {
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

  /// Of the operators that nobody needs; what is computed again is needed in parts.
  void removeUnused() {
    for (Operation *op = body->getTerminator(); op;) {
      Operation *before = op->getPrevNode();
      if (isOpTriviallyDead(op))
        op->erase();
      op = before;
    }
  }

  dfg::GraphOp forward;
  ModuleOp module;
  const TrainingOptions &options;
  std::vector<Stage> stages;
  GradientPlaces places;
  Recorder recorder;
  OpBuilder builder;
  dfg::GraphOp step;
  Block *body = nullptr;
  /// Values of the forward graph that depend on what is trained.
  llvm::DenseSet<Value> active;
  /// From the forward graph's reads and constants to the step's.
  IRMapping shared;
  llvm::MapVector<Attribute, Parameter> parameters;
  std::vector<Microbatch> microbatches;
  /// By input of the forward graph, mesh and microbatch.
  std::map<std::tuple<unsigned, const void *, unsigned>, Value> slices;
  /// By parameter that the forward graph writes: its next value so far, and the write.
  llvm::MapVector<Attribute, std::pair<Value, Operation *>> nextValues;
  /// By operator of the forward graph: the one from which the backward task at hand computes its gradient.
  llvm::DenseMap<Operation *, Operation *> used;
  /// What the backward task at hand made.
  SmallVector<Operation *> taskOperators;
  dist::PlaceAttr lastPlace;
  int64_t barriers = 0;
};

} // namespace

std::optional<KeptActivations> findKept(StringRef name) {
  return llvm::StringSwitch<std::optional<KeptActivations>>(name)
      .Case("none", KeptActivations::All)
      .Case("selective", KeptActivations::Products)
      .Case("full", KeptActivations::StageInputs)
      .Default(std::nullopt);
}

FailureOr<dfg::GraphOp> buildTrainingStep(dfg::GraphOp forward, const TrainingOptions &options) {
  auto step = StepWriter(forward, options).write();
  if (succeeded(step))
    forward.erase();
  return step;
}

} // namespace cleave
