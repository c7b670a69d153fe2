// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators in all their splits, and graphs of many operators.

#include "test/property/split/SplitCases.h"

#include "test/property/split/Placements.h"

#include "passes/train/GradientPlaces.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace cleave::test {
namespace {

/// An operator on a value of these bounds whose result has them, too, and that can be divided like any other. One in
/// three leaves something else than zero in the padding of devices' parts, which whoever joins them must not see.
Operation *passThrough(OpBuilder &builder, Value value, Bounds bounds, Dice &dice) {
  Location location = value.getLoc();
  Type element = elementOf(value);
  switch (dice.below(3)) {
  case 0:
    return dfg::ReshapeOp::create(builder, location, value.getType(), value);
  case 1:
    return dfg::BroadcastOp::create(builder, location, value.getType(), value);
  default:
    if (element.isInteger(1))
      return dfg::NotOp::create(builder, location, value);
    double least = bounds.low + 0.6 * (bounds.high - bounds.low);
    return dfg::ClampOp::create(builder, location, value, builder.getF64FloatAttr(least),
                                builder.getF64FloatAttr(bounds.high));
  }
}

/// The split of an operator of the operand's shape that leaves its result where an operator wants it, so that nothing
/// happens in between: its padding, too, is there.
dist::SplitAttr splitOfOperand(Operation *op, unsigned operand, dist::SplitAttr split) {
  SplitRule rule = cast<SplitInterface>(op).getSplitRule();
  Builder builder(op->getContext());
  SmallVector<NamedAttribute> entries;
  for (auto [dim, factors] : llvm::enumerate(rule.operands[operand]))
    if (factors.size() == 1)
      if (Attribute axes = split.getFactors().get(rule.factors[factors.front()].name))
        entries.push_back(builder.getNamedAttr("d" + std::to_string(dim), axes));
  return entries.empty() ? dist::SplitAttr()
                         : dist::SplitAttr::get(op->getContext(), builder.getDictionaryAttr(entries));
}

/// The operator under test in one more split.
class Branch {
public:
  Branch(Operation *original, const GraphBuilder &graph, ArrayRef<dist::MeshOp> meshes, Dice &dice)
      : original(original), graph(graph), meshes(meshes), dice(dice),
        builder(original->getBlock(), original->getBlock()->end()) {}

  Value add(dist::MeshOp mesh, dist::SplitAttr split) {
    Operation *op = addOperator(mesh, split);
    Bounds bounds = graph.boundsOf(original->getResult(0));
    return dice.oneIn(2) ? elsewhere(op->getResult(0), bounds, mesh) : op->getResult(0);
  }

  /// The operator, and the gradients by its operands of floats.
  SmallVector<Value> addWithGradients(dist::MeshOp mesh, dist::SplitAttr split, Value cotangent) {
    Operation *op = addOperator(mesh, split);
    SmallVector<Value> values = {op->getResult(0)};
    if (dice.oneIn(2))
      cotangent = elsewhere(cotangent, Bounds{}, mesh);
    SmallVector<bool> needed;
    for (Value operand : op->getOperands())
      needed.push_back(isa<FloatType>(elementOf(operand)));
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
    GradientPlaces places(original->getParentOfType<ModuleOp>());
    SmallVector<Operation *> created;
    auto gradients = places.differentiate(op, {cotangent, needed}, builder, created);
    if (succeeded(gradients))
      llvm::copy_if(*gradients, std::back_inserter(values), [](Value value) { return value != nullptr; });
    return values;
  }

private:
  Operation *addOperator(dist::MeshOp mesh, dist::SplitAttr split) {
    IRMapping mapping;
    bool inPlace = split && dice.oneIn(3);
    for (OpOperand &operand : original->getOpOperands()) {
      Value value = operand.get();
      if (mapping.contains(value) || (!inPlace && dice.oneIn(2)))
        continue;
      Value made = elsewhere(value, graph.boundsOf(value), mesh);
      if (inPlace)
        place(made.getDefiningOp(), mesh, splitOfOperand(original, operand.getOperandNumber(), split));
      mapping.map(value, made);
    }
    Operation *op = builder.clone(*original, mapping);
    place(op, mesh, split);
    return op;
  }

  /// The value in another layout; in one of two cases also on another mesh.
  Value elsewhere(Value value, Bounds bounds, dist::MeshOp mesh) {
    Operation *op = passThrough(builder, value, bounds, dice);
    placeAtRandom(op, dice.oneIn(2) ? mesh : dice.of<dist::MeshOp>(meshes), dice);
    return op->getResult(0);
  }

  Operation *original;
  const GraphBuilder &graph;
  ArrayRef<dist::MeshOp> meshes;
  Dice &dice;
  OpBuilder builder;
};

struct Way {
  dist::MeshOp mesh;
  dist::SplitAttr split;
};

std::vector<Way> someWays(Operation *op, ArrayRef<dist::MeshOp> meshes, Dice &dice, unsigned most) {
  std::vector<Way> ways;
  for (dist::MeshOp mesh : meshes)
    for (dist::SplitAttr split : allSplits(op, mesh))
      if (split || dice.oneIn(4))
        ways.push_back({mesh, split});
  dice.shuffle(ways);
  if (ways.size() > most)
    ways.resize(most);
  if (ways.empty())
    ways.push_back({meshes.front(), {}});
  return ways;
}

/// An instance of an operator in a graph with meshes, whose result is not used.
class Instance {
public:
  Instance(const OperatorTemplate &chosen, Type element, GraphBuilder &graph) : chosen(chosen) {
    Value operand = graph.fresh(element, graph.shape(chosen.minRank, chosen.maxRank), chosen.bounds);
    op = chosen.build(graph, operand).getDefiningOp();
    dice.emplace(graph.dice);
    module = graph.finish(op->getResult(0));
    meshes = addMeshes(*module, *dice);
    for (Operation &before : op->getBlock()->without_terminator())
      placeAtRandom(&before, dice->of<dist::MeshOp>(meshes), *dice);
    end = op->getBlock()->getTerminator();
    end->remove();
  }

  dfg::GraphOp getGraph() { return cast<dfg::GraphOp>(op->getParentOp()); }

  /// Ends the graph, which then has these outputs.
  SplitCase finish(ArrayRef<Value> outputs, unsigned count) {
    Block *block = op->getBlock();
    block->push_back(end);
    end->setOperands(outputs);
    dfg::GraphOp parent = getGraph();
    if (op->use_empty())
      op->erase();
    parent.setFunctionType(
        FunctionType::get(parent.getContext(), block->getArgumentTypes(), ValueRange(outputs).getTypes()));
    removeUnusedMeshes(*module);
    return {chosen.name.str(), std::move(module), count};
  }

  const OperatorTemplate &chosen;
  Operation *op = nullptr;
  std::optional<Dice> dice;
  OwningOpRef<ModuleOp> module;
  std::vector<dist::MeshOp> meshes;

private:
  Operation *end = nullptr;
};

} // namespace

SplitCase makeOperatorCase(MLIRContext &context, const OperatorTemplate &chosen, uint64_t seed, unsigned most) {
  GraphBuilder graph(context, seed);
  Type element = chosen.randomElement(Builder(&context), graph.dice);
  Instance instance(chosen, element, graph);
  Branch branch(instance.op, graph, instance.meshes, *instance.dice);
  std::vector<Way> ways = someWays(instance.op, instance.meshes, *instance.dice, most);
  SmallVector<Value> outputs;
  for (const Way &way : ways)
    outputs.push_back(branch.add(way.mesh, way.split));
  return instance.finish(outputs, static_cast<unsigned>(ways.size()));
}

SplitCase makeSplitGradientCase(MLIRContext &context, const OperatorTemplate &chosen, uint64_t seed, unsigned most) {
  GraphBuilder graph(context, seed);
  Builder builder(&context);
  Type element = graph.dice.oneIn(6) ? Type(builder.getF64Type()) : builder.getF32Type();
  Instance instance(chosen, element, graph);
  Value result = instance.op->getResult(0);
  dfg::GraphOp parent = instance.getGraph();
  DictionaryAttr fill = builder.getDictionaryAttr(
      builder.getNamedAttr(fillAttrName, fillAttr(builder, Bounds{}, instance.dice->seed() >> 1)));
  unsigned numInputs = parent.getNumArguments();
  if (failed(parent.insertArgument(numInputs, result.getType(), fill, parent.getLoc())))
    llvm::report_fatal_error("the graph takes no cotangent");
  Value cotangent = parent.getArgument(numInputs);
  Branch branch(instance.op, graph, instance.meshes, *instance.dice);
  std::vector<Way> ways = someWays(instance.op, instance.meshes, *instance.dice, most);
  SmallVector<Value> outputs;
  for (const Way &way : ways)
    outputs.append(branch.addWithGradients(way.mesh, way.split, cotangent));
  return instance.finish(outputs, static_cast<unsigned>(ways.size()));
}

/// Some value that the operator can be computed on, brought to where it is defined.
static Value chooseOperand(GraphBuilder &graph, const OperatorTemplate &chosen) {
  std::vector<Value> fitting;
  for (Value value : graph.getValues())
    if (chosen.accepts(cast<RankedTensorType>(value.getType())) && (!chosen.jumps || graph.isExact(value)))
      fitting.push_back(value);
  if (fitting.empty())
    return {};
  // Later values are likelier, so that graphs are deep.
  size_t index = std::max(graph.dice.below(fitting.size()), graph.dice.below(fitting.size()));
  return graph.within(fitting[index], chosen.bounds);
}

/// Values that nobody uses, and some others.
static std::vector<Value> chooseOutputs(Block &block, Dice &dice) {
  std::vector<Value> outputs;
  for (Operation &op : block)
    if (isPlaced(&op) && (op.use_empty() || dice.oneIn(10)))
      outputs.push_back(op.getResult(0));
  return outputs;
}

SplitCase makeGraphCase(MLIRContext &context, uint64_t seed) {
  constexpr int64_t largest = 4096;
  GraphBuilder graph(context, seed);
  Builder builder(&context);
  for (int64_t i = graph.dice.between(1, 3); i > 0; --i)
    graph.fresh(builder.getF32Type(), graph.shape(i == 1 ? 3 : 0, 4), {-2, 2});
  for (int64_t left = graph.dice.between(3, 30); left > 0;) {
    const OperatorTemplate &chosen = graph.dice.of<OperatorTemplate>(operatorTemplates());
    Value operand = chooseOperand(graph, chosen);
    if (!operand) {
      if (graph.dice.oneIn(8))
        graph.fresh(chosen.randomElement(builder, graph.dice), graph.shape(chosen.minRank, chosen.maxRank),
                    chosen.bounds);
      continue;
    }
    Value made = chosen.build(graph, operand);
    --left;
    // Large tensors do not become larger.
    if (cast<RankedTensorType>(made.getType()).getNumElements() > largest)
      graph.forget(made);
  }
  Block *block = graph.at().getInsertionBlock();
  Dice dice = graph.dice;
  std::vector<Value> outputs = chooseOutputs(*block, dice);
  OwningOpRef<ModuleOp> module = graph.finish(outputs);
  std::vector<dist::MeshOp> meshes = addMeshes(*module, dice);
  // A graph runs on few of them.
  dice.shuffle(meshes);
  meshes.resize(dice.between(1, 4));
  for (Operation &op : block->without_terminator())
    placeAtRandom(&op, dice.of<dist::MeshOp>(meshes), dice);
  removeUnusedMeshes(*module);
  return {"graph", std::move(module), 1};
}

} // namespace cleave::test
