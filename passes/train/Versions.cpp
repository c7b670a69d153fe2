// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts steps, and writes the graphs of what replicas exchange.

#include "passes/train/Versions.h"

#include "passes/train/Arithmetic.h"
#include "passes/train/StepWriter.h"

#include "dialects/dfg/PortAttributes.h"

using namespace mlir;

namespace cleave {

//===-- graphs ----------------------------------------------------------------------------------------------===//

/// The attributes of an argument or result that is of a parameter.
static DictionaryAttr portOf(MLIRContext *context, const Twine &name, StringRef parameter) {
  Builder builder(context);
  return builder.getDictionaryAttr({builder.getNamedAttr("dfg.name", builder.getStringAttr(name)),
                                    builder.getNamedAttr(dfg::versionAttrName, builder.getStringAttr(parameter))});
}

/// What a replica gives for a parameter; of one of several replicas whose gifts come together.
static std::string giftName(StringRef parameter, unsigned replica, unsigned replicas) {
  std::string name = (parameter + "/gift").str();
  return replicas == 1 ? name : name + std::to_string(replica);
}

namespace {

/// Changes a graph's arguments and results along with its type.
class Ports {
public:
  explicit Ports(dfg::GraphOp graph) : graph(graph) {
    for (unsigned index = 0; index != graph.getArgumentTypes().size(); ++index)
      arguments.push_back(graph.getArgAttrDict(index));
    for (unsigned index = 0; index != graph.getResultTypes().size(); ++index)
      results.push_back(graph.getResultAttrDict(index));
    auto operands = graph.getBody().front().getTerminator()->getOperands();
    values.assign(operands.begin(), operands.end());
  }

  BlockArgument addArgument(Type type, Location location, DictionaryAttr attributes) {
    arguments.push_back(attributes);
    return graph.getBody().front().addArgument(type, location);
  }
  void addResult(Value value, DictionaryAttr attributes) {
    values.push_back(value);
    results.push_back(attributes);
  }
  void dropResults() {
    values.clear();
    results.clear();
  }
  /// But for those of parameters.
  void dropUnusedArguments() {
    Block &block = graph.getBody().front();
    for (unsigned index = block.getNumArguments(); index-- > 0;)
      if (block.getArgument(index).use_empty() &&
          !(arguments[index] && arguments[index].contains(dfg::versionAttrName))) {
        block.eraseArgument(index);
        arguments.erase(arguments.begin() + index);
      }
  }

  void setReturned() { graph.getBody().front().getTerminator()->setOperands(values); }
  void set() {
    setReturned();
    Block &block = graph.getBody().front();
    Builder builder(graph.getContext());
    auto attributesOf = [&](ArrayRef<DictionaryAttr> list) {
      SmallVector<Attribute> all;
      for (DictionaryAttr attributes : list)
        all.push_back(attributes ? attributes : builder.getDictionaryAttr({}));
      return builder.getArrayAttr(all);
    };
    graph.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), ValueRange(values).getTypes()));
    graph.setArgAttrsAttr(attributesOf(arguments));
    graph.setResAttrsAttr(attributesOf(results));
  }

private:
  dfg::GraphOp graph;
  SmallVector<DictionaryAttr> arguments, results;
  SmallVector<Value> values;
};

/// Appends placed operators to a graph.
class PlacedBuilder {
public:
  PlacedBuilder(ModuleOp module, MLIRContext *context) : places(module), builder(context, &recorder) {}

  LogicalResult place(const TrainedParameter &parameter, StringRef by,
                      ArrayRef<std::pair<Value, dist::Layout>> values) {
    places.begin(parameter.mesh, builder.getStringAttr(by));
    for (const auto &[value, layout] : values)
      places.hint(value, layout);
    return places.place(recorder.take());
  }

  GradientPlaces places;
  CreatedRecorder recorder;
  OpBuilder builder;
};

} // namespace

/// The sum of arguments, in their order, where the parameter is kept.
static FailureOr<Value> addUp(PlacedBuilder &at, const TrainedParameter &parameter, ArrayRef<Value> gifts) {
  Value sum = gifts.front();
  for (Value gift : gifts.drop_front()) {
    at.recorder.take();
    Value next = dfg::AddOp::create(at.builder, parameter.gradient.getLoc(), sum, gift);
    if (failed(at.place(parameter, "replicas",
                        {{sum, parameter.layout}, {gift, parameter.layout}, {next, parameter.layout}})))
      return failure();
    sum = next;
  }
  return sum;
}

LogicalResult partAtGradients(dfg::GraphOp step, const ChangedParameters &changed, unsigned replicas,
                              const Synchronization &sync) {
  MLIRContext *context = step.getContext();
  auto module = step->getParentOfType<ModuleOp>();
  ArrayRef<TrainedParameter> trained = changed.trained;
  IRMapping map;
  OpBuilder builder(step);
  builder.setInsertionPointAfter(step);
  auto apply = cast<dfg::GraphOp>(builder.clone(*step, map));
  apply.setSymName(applyGraphName);
  llvm::DenseSet<Attribute> kept;
  for (const TrainedParameter &parameter : trained)
    kept.insert(parameter.name);

  // What the keeper does: all that depends on gradients, and the count of steps.
  Ports applied(apply);
  applied.dropResults();
  applied.setReturned();
  unsigned gifts = sync.bound == 0u ? replicas : 1;
  PlacedBuilder at(module, context);
  Block &body = apply.getBody().front();
  SmallVector<SmallVector<Value>> given(trained.size());
  int64_t barriers = 0;
  for (unsigned replica = 0; replica != gifts; ++replica)
    for (auto [parameter, values] : llvm::zip_equal(trained, given))
      values.push_back(applied.addArgument(
          parameter.gradient.getType(), parameter.gradient.getLoc(),
          portOf(context, giftName(parameter.name.getValue(), replica, gifts), parameter.name.getValue())));
  for (auto [parameter, values] : llvm::zip_equal(trained, given)) {
    Value gradient = map.lookup(parameter.gradient);
    at.builder.setInsertionPointAfter(gradient.getDefiningOp());
    // What only scales a gradient scales the parts of a sum, as where devices have the parts (LocalProgram).
    auto scaled = gradient.hasOneUse() ? dyn_cast<dfg::MulOp>(*gradient.getUsers().begin()) : dfg::MulOp();
    if (scaled && values.size() > 1 && cast<ShapedType>(scaled.getRhs().getType()).getRank() == 0 &&
        scaled.getLhs() == gradient) {
      at.builder.setInsertionPointAfter(scaled);
      for (Value &gift : values) {
        at.recorder.take();
        Value part = dfg::MulOp::create(at.builder, scaled.getLoc(), gift, scaled.getRhs());
        // Rounded before it is added, as what is sent.
        Value rounded = dfg::BarrierOp::create(at.builder, scaled.getLoc(), part, barriers++);
        if (failed(at.place(parameter, "replicas",
                            {{gift, parameter.layout}, {part, parameter.layout}, {rounded, parameter.layout}})))
          return failure();
        gift = rounded;
      }
      gradient = scaled;
    }
    auto sum = addUp(at, parameter, values);
    if (failed(sum))
      return failure();
    gradient.replaceAllUsesWith(*sum);
  }
  // What the forward graph writes depends on what the replica computes.
  auto isReplicas = [&](dfg::WriteOp write) { return llvm::is_contained(changed.written, write.getParameterAttr()); };
  for (auto write : llvm::make_early_inc_range(body.getOps<dfg::WriteOp>())) {
    if (isReplicas(write))
      write.erase();
    else if (kept.contains(write.getParameterAttr()))
      applied.addResult(write.getValue(), portOf(context, write.getParameter(), write.getParameter()));
  }
  applied.setReturned();
  removeUnused(apply);
  applied.dropUnusedArguments();
  applied.set();

  // What replicas do: all else.
  Ports own(step);
  for (auto write : llvm::make_early_inc_range(step.getBody().front().getOps<dfg::WriteOp>()))
    if (!isReplicas(write))
      write.erase();
  for (const TrainedParameter &parameter : trained)
    own.addResult(parameter.gradient,
                  portOf(context, giftName(parameter.name.getValue(), 0, 1), parameter.name.getValue()));
  own.setReturned();
  removeUnused(step);
  llvm::DenseMap<Attribute, Value> versions;
  for (auto read : llvm::make_early_inc_range(step.getBody().front().getOps<dfg::ReadOp>())) {
    if (!kept.contains(read.getParameterAttr()))
      continue;
    Value &version = versions[read.getParameterAttr()];
    if (!version)
      version =
          own.addArgument(read.getType(), read.getLoc(), portOf(context, read.getParameter(), read.getParameter()));
    read.getResult().replaceAllUsesWith(version);
    read.erase();
  }
  own.set();
  return success();
}

//===-- local steps -----------------------------------------------------------------------------------------===//

static constexpr StringLiteral scaleSuffix = "/scale";

namespace {
struct QuantizedMove {
  Value whole; ///< by how much the parameter has moved, and what the exchange before rounded away
  Value steps; ///< i8
  Value scale; ///< a scalar
  Value error; ///< what is rounded away
};
} // namespace

static QuantizedMove quantizeMove(OpBuilder &builder, Location location, Value anchor, Value now, Value error) {
  constexpr double most = 127;
  Arithmetic math(builder, location);
  QuantizedMove move;
  move.whole = math.add(math.sub(anchor, now), error);
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, Arithmetic::typeOf(move.whole).getRank()));
  Value largest = math.reduce(dfg::AbsOp::create(builder, location, move.whole), dfg::ReduceKind::Max, all, false);
  // Where nothing has moved, no scale is zero.
  move.scale = math.mul(math.max(largest, 1e-30), 1 / most);
  Value steps = dfg::RoundOp::create(builder, location, math.div(move.whole, move.scale));
  steps = math.max(math.min(steps, most), -most);
  move.steps = math.cast(steps, builder.getI8Type());
  move.error = math.sub(move.whole, math.mul(steps, move.scale));
  return move;
}

/// An empty graph behind `after`, with as many samples as the step, whose arena it shares.
static dfg::GraphOp addGraph(OpBuilder &builder, dfg::GraphOp step, Operation *after, StringRef name) {
  builder.setInsertionPointAfter(after);
  auto graph = dfg::GraphOp::create(builder, step.getLoc(), name, builder.getFunctionType({}, {}));
  graph->setAttr(dfg::samplesAttrName, step->getAttr(dfg::samplesAttrName));
  builder.setInsertionPointToEnd(&graph.getBody().front());
  dfg::ReturnOp::create(builder, step.getLoc(), ValueRange());
  builder.setInsertionPoint(graph.getBody().front().getTerminator());
  return graph;
}

LogicalResult addLocalSteps(dfg::GraphOp step, ArrayRef<TrainedParameter> trained, unsigned replicas,
                            const Synchronization &sync) {
  MLIRContext *context = step.getContext();
  auto module = step->getParentOfType<ModuleOp>();
  PlacedBuilder at(module, context);
  llvm::DenseMap<Attribute, RankedTensorType> types;
  for (auto read : step.getBody().front().getOps<dfg::ReadOp>())
    types[read.getParameterAttr()] = cast<RankedTensorType>(read.getType());
  auto declare = [&](const TrainedParameter &parameter, const Twine &suffix) {
    return declareState(module, (parameter.name.getValue() + suffix).str(), types[parameter.name], 0);
  };
  auto read = [&](const TrainedParameter &parameter, FlatSymbolRefAttr name) -> FailureOr<Value> {
    at.recorder.take();
    Value value = dfg::ReadOp::create(at.builder, parameter.gradient.getLoc(), types[parameter.name], name);
    if (failed(at.place(parameter, "replicas", {{value, parameter.layout}})))
      return failure();
    return value;
  };
  auto write = [&](const TrainedParameter &parameter, FlatSymbolRefAttr name, Value value) {
    at.recorder.take();
    dfg::WriteOp::create(at.builder, parameter.gradient.getLoc(), name, value);
    return at.place(parameter, "replicas", {{value, parameter.layout}});
  };

  llvm::DenseMap<Attribute, FlatSymbolRefAttr> anchors;
  for (const TrainedParameter &parameter : trained)
    anchors[parameter.name] = declare(parameter, "/anchor");
  // What a replica does while others make the version is its next move's, from where it was when it gave.
  auto moveAnchor = [&](const TrainedParameter &parameter, Value now) {
    return sync.overlap == 0 ? success() : write(parameter, anchors[parameter.name], now);
  };

  dfg::GraphOp fetch = addGraph(at.builder, step, step, fetchGraphName);
  Ports fetched(fetch);
  for (const TrainedParameter &parameter : trained) {
    Value version = fetched.addArgument(types[parameter.name], parameter.gradient.getLoc(),
                                        portOf(context, parameter.name.getValue(), parameter.name.getValue()));
    if (failed(write(parameter, parameter.name, version)) || failed(write(parameter, anchors[parameter.name], version)))
      return failure();
  }
  fetched.set();

  dfg::GraphOp last = fetch;
  if (sync.overlap != 0) {
    last = addGraph(at.builder, step, fetch, mergeGraphName);
    Ports merged(last);
    for (const TrainedParameter &parameter : trained) {
      Value version = merged.addArgument(types[parameter.name], parameter.gradient.getLoc(),
                                         portOf(context, parameter.name.getValue(), parameter.name.getValue()));
      auto anchor = read(parameter, anchors[parameter.name]), now = read(parameter, parameter.name);
      if (failed(anchor) || failed(now))
        return failure();
      at.recorder.take();
      Arithmetic math(at.builder, parameter.gradient.getLoc());
      Value moved = math.sub(*now, *anchor), sum = math.add(version, moved);
      if (failed(at.place(parameter, "replicas",
                          {{version, parameter.layout}, {moved, parameter.layout}, {sum, parameter.layout}})) ||
          failed(write(parameter, parameter.name, sum)) || failed(write(parameter, anchors[parameter.name], version)))
        return failure();
    }
    merged.set();
  }

  dfg::GraphOp give = addGraph(at.builder, step, last, giveGraphName);
  Ports given(give);
  for (const TrainedParameter &parameter : trained) {
    auto anchor = read(parameter, anchors[parameter.name]), now = read(parameter, parameter.name);
    if (failed(anchor) || failed(now))
      return failure();
    std::string name = giftName(parameter.name.getValue(), 0, 1);
    if (sync.moves == MoveType::I8) {
      FlatSymbolRefAttr errorName = declare(parameter, "/move_error");
      auto error = read(parameter, errorName);
      if (failed(error))
        return failure();
      at.recorder.take();
      QuantizedMove move = quantizeMove(at.builder, parameter.gradient.getLoc(), *anchor, *now, *error);
      std::vector<std::pair<Value, dist::Layout>> hints;
      for (Value value : {move.whole, move.steps, move.error})
        hints.emplace_back(value, parameter.layout);
      if (failed(at.place(parameter, "replicas", hints)) || failed(write(parameter, errorName, move.error)) ||
          failed(moveAnchor(parameter, *now)))
        return failure();
      given.addResult(move.steps, portOf(context, name, parameter.name.getValue()));
      given.addResult(move.scale, portOf(context, name + scaleSuffix, parameter.name.getValue()));
      continue;
    }
    at.recorder.take();
    Arithmetic math(at.builder, parameter.gradient.getLoc());
    Value moved = math.sub(*anchor, *now);
    Value sent = sync.moves == MoveType::BF16 ? math.cast(moved, at.builder.getBF16Type()) : moved;
    if (failed(at.place(parameter, "replicas", {{moved, parameter.layout}, {sent, parameter.layout}})) ||
        failed(moveAnchor(parameter, *now)))
      return failure();
    given.addResult(sent, portOf(context, name, parameter.name.getValue()));
  }
  given.set();

  dfg::GraphOp apply = addGraph(at.builder, step, give, applyGraphName);
  Ports applied(apply);
  SmallVector<SmallVector<Value>> moves(trained.size()), scales(trained.size());
  for (unsigned replica = 0; replica != replicas; ++replica)
    for (auto [parameter, values, factors] : llvm::zip_equal(trained, moves, scales)) {
      auto type = cast<RankedTensorType>(types[parameter.name]);
      Type element = sync.moves == MoveType::BF16 ? at.builder.getBF16Type()
                     : sync.moves == MoveType::I8 ? Type(at.builder.getI8Type())
                                                  : type.getElementType();
      std::string name = giftName(parameter.name.getValue(), replica, replicas);
      values.push_back(applied.addArgument(RankedTensorType::get(type.getShape(), element), parameter.gradient.getLoc(),
                                           portOf(context, name, parameter.name.getValue())));
      if (sync.moves == MoveType::I8)
        factors.push_back(applied.addArgument(RankedTensorType::get({}, type.getElementType()),
                                              parameter.gradient.getLoc(),
                                              portOf(context, name + scaleSuffix, parameter.name.getValue())));
    }
  for (auto [parameter, values, factors] : llvm::zip_equal(trained, moves, scales)) {
    Location location = parameter.gradient.getLoc();
    Arithmetic math(at.builder, location);
    SmallVector<Value> wide;
    for (auto [replica, move] : llvm::enumerate(values)) {
      at.recorder.take();
      wide.push_back(math.cast(move, Arithmetic::elementOf(parameter.gradient)));
      if (!factors.empty())
        wide.back() = math.mul(wide.back(), factors[replica]);
      if (failed(at.place(parameter, "replicas", {{move, parameter.layout}, {wide.back(), parameter.layout}})))
        return failure();
    }
    auto sum = addUp(at, parameter, wide);
    auto now = read(parameter, parameter.name);
    if (failed(sum) || failed(now))
      return failure();
    SmallVector<Value> states;
    SmallVector<FlatSymbolRefAttr> names;
    for (const StateSpec &spec : stateOf(sync.outer)) {
      names.push_back(declare(parameter, "/outer_" + spec.suffix));
      auto state = read(parameter, names.back());
      if (failed(state))
        return failure();
      states.push_back(*state);
    }
    at.recorder.take();
    Value mean = math.mul(*sum, 1.0 / replicas);
    StepScalars scalars =
        buildStepScalars(at.builder, location, sync.outer,
                         math.number(at.builder.getF64Type(), sync.outer.learningRate.rate), math.integer(0));
    Update update = buildUpdate(at.builder, location, sync.outer, *now, mean, states, scalars);
    std::vector<std::pair<Value, dist::Layout>> hints{{mean, parameter.layout}, {update.parameter, parameter.layout}};
    for (Value value : llvm::concat<Value>(states, update.state))
      hints.emplace_back(value, parameter.layout);
    if (failed(at.place(parameter, "replicas", hints)) || failed(write(parameter, parameter.name, update.parameter)))
      return failure();
    for (auto [name, next] : llvm::zip_equal(names, update.state))
      if (failed(write(parameter, name, next)))
        return failure();
    applied.addResult(update.parameter, portOf(context, parameter.name.getValue(), parameter.name.getValue()));
  }
  applied.set();
  return success();
}

} // namespace cleave
