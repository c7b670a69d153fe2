// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One walk over a placed graph that writes its programs.

#include "passes/distribute/ProgramWriter.h"

#include "dialects/dist/KeyExchange.h"
#include "passes/planner/ModelNode.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

FlatSymbolRefAttr meshOf(Operation *op) {
  dist::PlaceAttr place = dist::getPlace(op);
  return place ? place.getMesh() : FlatSymbolRefAttr();
}

/// Parts of inputs are loaded wherever they are read, parts of outputs given out where they are made.
static bool needsNoPlace(Operation *op) { return isa<dist::InputPartOp, dist::OutputPartsOp>(op); }

LogicalResult checkPlaces(dfg::GraphOp graph) {
  auto module = graph->getParentOfType<ModuleOp>();
  llvm::DenseSet<Attribute> known;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    dist::PlaceAttr place = dist::getPlace(&op);
    if (needsNoPlace(&op))
      continue;
    if (followsItsUsers(&op)) {
      if (place)
        return op.emitOpError("expects no 'dist.place': it is copied to whoever uses it");
      continue;
    }
    if (!place)
      return op.emitOpError("expects a 'dist.place', found none; run --dist-place-operators before");
    if (!known.insert(place.getMesh()).second)
      continue;
    if (!module.lookupSymbol<dist::MeshOp>(place.getMesh().getAttr()))
      return op.emitOpError("expects a 'dist.mesh' named '") << place.getMesh().getValue() << "', found none";
  }
  return success();
}

//===-- what goes where ---------------------------------------------------------------------------------------===//

LogicalResult ProgramWriter::collectMeshes() {
  auto module = graph->getParentOfType<ModuleOp>();
  llvm::DenseSet<Attribute> used;
  for (Operation &op : graph.getBody().front().without_terminator())
    used.insert(meshOf(&op));
  bool empty = llvm::none_of(used, [](Attribute mesh) { return mesh != nullptr; });
  for (auto mesh : module.getOps<dist::MeshOp>()) {
    auto name = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
    if (used.contains(name) || (empty && programs.empty()))
      programs[name] = std::make_unique<Program>(mesh, costs);
  }
  if (programs.empty())
    return graph.emitOpError("expects a 'dist.mesh' in the module, found none");
  return success();
}

/// The layout without what windows read beyond their blocks: that is fetched inside of the mesh.
static Layout withoutReach(Layout layout, const dist::MeshShape &mesh) {
  for (dist::DimParts &parts : layout.dims)
    for (dist::Part &part : parts)
      part.reach.reset();
  layout.canonicalize(mesh);
  return layout;
}

static Layout withoutPartial(Layout layout) {
  layout.partial.clear();
  layout.combiner = Combiner::None;
  return layout;
}

void ProgramWriter::need(Value value, Attribute mesh, const Layout &layout) {
  Operation *producer = value.getDefiningOp();
  if (producer && meshOf(producer) == mesh)
    return;
  Program &program = *programs[mesh];
  std::vector<User> &known = users[value];
  Layout plain = withoutReach(layout, program.getShape());
  if (llvm::any_of(known, [&](const User &user) { return user.mesh == mesh && user.layout == plain; }))
    return;
  known.push_back({mesh, std::move(plain)});
}

/// All values of a set of operands in which the operator is linear must be partial over the same axes, and nobody else
/// must use them: then one join of the result replaces theirs.
void ProgramWriter::delayJoin(Operation &op, OperatorLayouts &layouts) {
  FlatSymbolRefAttr mesh = meshOf(&op);
  const dist::MeshShape &shape = programs[mesh]->getShape();
  auto partialOf = [&](unsigned operand) -> const Layout * {
    auto home = homes.find(op.getOperand(operand));
    bool isPartial = home != homes.end() && home->second.mesh == mesh && !home->second.layout.partial.empty();
    return isPartial && home->second.layout.combiner == Combiner::Sum ? &home->second.layout : nullptr;
  };
  for (ArrayRef<unsigned> set : layouts.rule.linear) {
    const Layout *first = set.empty() ? nullptr : partialOf(set.front());
    if (!first)
      continue;
    dist::Axes axes = first->partial;
    int64_t bytes = 0;
    bool fits = op.getNumResults() == 1 && llvm::all_of(set, [&](unsigned operand) {
                  const Layout *layout = partialOf(operand);
                  Value value = op.getOperand(operand);
                  bytes += layouts.operands[operand].localBytes(cast<RankedTensorType>(value.getType()), shape);
                  return layout && layout->partial == axes && value.hasOneUse();
                });
    Layout &result = layouts.results.front();
    fits = fits && (result.partial.empty() || result.combiner == Combiner::Sum);
    for (StringAttr axis : axes)
      for (const dist::Axes &cut : layouts.axes)
        fits = fits && !llvm::is_contained(cut, axis);
    if (!fits || result.localBytes(cast<RankedTensorType>(op.getResult(0).getType()), shape) > bytes)
      continue;
    for (unsigned operand : set) {
      layouts.operands[operand].partial = axes;
      layouts.operands[operand].combiner = Combiner::Sum;
    }
    result.partial.append(axes);
    result.combiner = Combiner::Sum;
    result.canonicalize(shape);
    return;
  }
}

LogicalResult ProgramWriter::collectLayouts() {
  Block &body = graph.getBody().front();
  for (Operation &op : body.without_terminator()) {
    FlatSymbolRefAttr mesh = meshOf(&op);
    if (!mesh)
      continue;
    auto found = findLayouts(&op, programs[mesh]->getShape());
    if (failed(found))
      return failure();
    delayJoin(op, *found);
    for (auto [operand, layout] : llvm::zip_equal(op.getOperands(), found->operands))
      need(operand, mesh, layout);
    for (auto [result, layout] : llvm::zip_equal(op.getResults(), found->results))
      homes[result] = {mesh, layout};
    layoutsOf[&op] = std::move(*found);
  }
  for (auto [index, output] : llvm::enumerate(body.getTerminator()->getOperands())) {
    auto parts = output.getDefiningOp<dist::OutputPartsOp>();
    if (!parts)
      addOutput(static_cast<unsigned>(index), output, {});
    else
      for (auto [part, value] : llvm::enumerate(parts.getParts()))
        addOutput(static_cast<unsigned>(index), value, parts.getWithin(static_cast<unsigned>(part)));
  }
  for (BlockArgument input : body.getArguments())
    addInput(input.getArgNumber(), input, {});
  for (auto part : body.getOps<dist::InputPartOp>())
    addInput(cast<BlockArgument>(part.getInput()).getArgNumber(), part, part.getWithin());
  return success();
}

void ProgramWriter::addInput(unsigned index, Value value, dist::WithinAttr within) {
  for (const User &user : users.lookup(value))
    programs[user.mesh]->inputs.push_back({index, user.layout, value, within});
}

void ProgramWriter::addOutput(unsigned index, Value value, dist::WithinAttr within) {
  Home home = homeOf(value);
  need(value, home.mesh, home.layout);
  programs[home.mesh]->outputs.push_back({index, home.layout, value, within});
}

ProgramWriter::Home ProgramWriter::homeOf(Value output) {
  auto home = homes.find(output);
  if (home == homes.end())
    return {programs.front().first, Layout::whole(cast<ShapedType>(output.getType()))};
  return {home->second.mesh, withoutPartial(home->second.layout)};
}

LogicalResult ProgramWriter::createPrograms() {
  auto module = graph->getParentOfType<ModuleOp>();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  for (auto &[meshName, entry] : programs) {
    Program &program = *entry;
    std::string name = (graph.getSymName() + "." + program.getMesh().getSymName()).str();
    if (Operation *symbol = module.lookupSymbol(name))
      return symbol->emitError("expects the name \"")
             << name << "\" to be free for the program of graph \"" << graph.getSymName() << "\" on mesh \""
             << program.getMesh().getSymName() << "\"";
    SmallVector<Type> inputs, outputs;
    auto localType = [&](Type type, const Layout &layout) {
      return layout.localType(cast<RankedTensorType>(type), program.getShape());
    };
    for (const LocalProgram::Port &port : program.inputs)
      inputs.push_back(localType(port.value.getType(), port.layout));
    for (const LocalProgram::Port &port : program.outputs)
      outputs.push_back(localType(port.value.getType(), port.layout));
    program.op = dist::ProgramOp::create(builder, graph.getLoc(), name, builder.getFunctionType(inputs, outputs),
                                         program.getMeshName());
    if (graph->hasAttr(dist::orderedAttrName))
      program.op->setAttr(dist::orderedAttrName, builder.getUnitAttr());
    for (auto [position, port] : llvm::enumerate(program.inputs)) {
      program.op.setArgAttr(position, dist::inputAttrName, builder.getI64IntegerAttr(port.index));
      if (!port.layout.isWhole())
        program.op.setArgAttr(position, dist::layoutAttrName, port.layout.toAttribute(builder.getContext()));
      if (port.within)
        program.op.setArgAttr(position, dist::withinAttrName, port.within);
      program.hold(port.value, port.layout, program.op.getArgument(position), true);
    }
    for (auto [position, port] : llvm::enumerate(program.outputs)) {
      program.op.setResultAttr(position, dist::outputAttrName, builder.getI64IntegerAttr(port.index));
      if (!port.layout.isWhole())
        program.op.setResultAttr(position, dist::layoutAttrName, port.layout.toAttribute(builder.getContext()));
      if (port.within)
        program.op.setResultAttr(position, dist::withinAttrName, port.within);
    }
  }
  return success();
}

//===-- the walk ----------------------------------------------------------------------------------------------===//

/// Layouts are said where one of them is not whole.
static std::pair<dist::LayoutAttr, dist::LayoutAttr> transferLayouts(MLIRContext *context, const Layout &from,
                                                                     const Layout &to) {
  if (from.isWhole() && to.isWhole())
    return {};
  return {from.toAttribute(context), to.toAttribute(context)};
}

void ProgramWriter::receiveUpTo(int64_t channel, Program &program) {
  OpBuilder builder = program.atEnd();
  while (!program.arrivals.empty() && program.arrivals.front().channel <= channel) {
    Arrival arrival = program.arrivals.front();
    program.arrivals.pop_front();
    auto [from, to] = transferLayouts(graph.getContext(), arrival.from, arrival.to);
    Value received = dist::ReceiveOp::create(
        builder, arrival.value.getLoc(),
        arrival.to.localType(cast<RankedTensorType>(arrival.value.getType()), program.getShape()),
        arrival.source->getMeshName(), builder.getI64IntegerAttr(arrival.channel), from, to, FloatAttr());
    program.hold(arrival.value, arrival.to, received, true);
  }
}

/// In which layout a value comes to a user. Where every device of the mesh wants the same, each may get a share of it
/// and all of them gather the rest from each other, if that takes less: links inside of a host are faster than those
/// between hosts (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, 2021, section 4.1).
/// Nothing where it takes least to make it of what other users on the mesh get, in the layouts `arrived`.
std::optional<Layout> ProgramWriter::arrivalLayout(Value value, const Layout &from, Program &source, const User &user,
                                                   ArrayRef<Layout> arrived) {
  Program &target = *programs[user.mesh];
  const dist::MeshShape &shape = target.getShape();
  auto type = cast<RankedTensorType>(value.getType());
  auto reshardSeconds = [&](const Layout &layout) {
    return dist::findReshard(layout, user.layout, type, shape, target.getCost()).seconds;
  };
  auto secondsOf = [&](const Layout &layout) {
    return reshardSeconds(layout) + costs.transferSeconds(source.getMesh(), target.getMesh(),
                                                          static_cast<double>(layout.localBytes(type, shape)));
  };
  // On a mesh of the same shape, first as it lies: each device sends what it has to one other.
  SmallVector<Layout, 3> shared;
  bool isAlike = source.getShape().getAxes() == shape.getAxes() && source.getShape().getSizes() == shape.getSizes();
  if (isAlike && shareReplicas(from, shape) == from)
    shared.push_back(from);
  shared.push_back(shareReplicas(user.layout, shape));
  shared.push_back(shareReplicas(user.layout, shape, /*mayPad=*/true));
  Layout best = user.layout;
  double least = secondsOf(best);
  for (const Layout &layout : shared)
    if (double seconds = secondsOf(layout); seconds < least) {
      best = layout;
      least = seconds;
    }
  if (llvm::any_of(arrived, [&](const Layout &layout) { return reshardSeconds(layout) <= least; }))
    return std::nullopt;
  return best;
}

void ProgramWriter::sendResult(Value result, Program &program) {
  auto found = users.find(result);
  if (found == users.end())
    return;
  Layout from = withoutPartial(homes[result].layout);
  Value part = program.get(result, from);
  OpBuilder builder = program.atEnd();
  llvm::DenseMap<Attribute, SmallVector<Layout, 1>> arrived;
  for (const User &user : found->second) {
    std::optional<Layout> to = arrivalLayout(result, from, program, user, arrived[user.mesh]);
    if (!to)
      continue;
    arrived[user.mesh].push_back(*to);
    Program &target = *programs[user.mesh];
    auto [fromAttr, toAttr] = transferLayouts(graph.getContext(), from, *to);
    dist::SendOp::create(builder, result.getLoc(), part, target.getMeshName(), builder.getI64IntegerAttr(nextChannel),
                         fromAttr, toAttr);
    target.arrivals.push_back({result, &program, from, std::move(*to), nextChannel});
    ++nextChannel;
  }
}

LogicalResult ProgramWriter::localize(Operation &op, const OperatorLayouts &layouts, Program &program) {
  if (isa<dfg::ReadOp>(op)) {
    program.get(op.getResult(0), layouts.results.front());
    return success();
  }
  if (auto barrier = dyn_cast<dfg::BarrierOp>(op); barrier && showsParameter(barrier)) {
    program.hold(barrier, layouts.results.front(), program.get(barrier.getInput(), layouts.operands.front()), true);
    return success();
  }
  if (auto write = dyn_cast<dfg::WriteOp>(op)) {
    Value part = program.get(write.getValue(), layouts.operands.front());
    OpBuilder builder = program.atEnd();
    dist::WriteOp::create(builder, op.getLoc(), write.getParameterAttr(),
                          layouts.operands.front().toAttribute(builder.getContext()), part);
    return success();
  }
  SmallVector<Value> operands;
  for (OpOperand &operand : op.getOpOperands())
    operands.push_back(program.getOperand(operand, layouts));
  SmallVector<Type> types;
  for (auto [result, layout] : llvm::zip_equal(op.getResults(), layouts.results))
    types.push_back(layout.localType(cast<RankedTensorType>(result.getType()), program.getShape()));
  OpBuilder builder = program.atEnd();
  SmallVector<Value> results;
  if (layouts.isCut()) {
    auto start = [&](unsigned factor) {
      Value made = program.start(op.getLoc(), {layouts.rule.factors[factor].size, layouts.axes[factor], {}});
      builder.setInsertionPointToEnd(&program.op.getBody().front());
      return made;
    };
    auto made = cast<SplitInterface>(op).localize(builder, {operands, types, layouts.ways, layouts.sizes, start});
    if (failed(made))
      return op.emitOpError("cannot be cut in this way; cut another factor, or none");
    results = std::move(*made);
    for (auto [value, type] : llvm::zip_equal(results, types))
      if (value.getType() != type)
        return op.emitOpError("expects its devices' parts to be ") << type << ", got " << value.getType();
  } else {
    Operation *copy = builder.clone(op);
    copy->setOperands(operands);
    results = llvm::to_vector_of<Value>(copy->getResults());
  }
  for (auto [result, layout, part] : llvm::zip_equal(op.getResults(), layouts.results, results)) {
    if (Operation *made = part.getDefiningOp()) {
      made->removeDiscardableAttr(dist::placeAttrName);
      made->removeDiscardableAttr(dist::groupAttrName);
      if (Attribute keys = op.getDiscardableAttr(dist::keysAttrName))
        made->setAttr(dist::keysAttrName, keys);
    }
    program.hold(result, layout, part, false);
  }
  return success();
}

LogicalResult ProgramWriter::writeOperator(Operation &op) {
  Program &program = *programs[meshOf(&op)];
  bool sends = llvm::any_of(op.getResults(), [&](Value result) { return users.contains(result); });
  int64_t needed = sends ? nextChannel : -1;
  for (const Arrival &arrival : program.arrivals)
    if (llvm::is_contained(op.getOperands(), arrival.value))
      needed = std::max(needed, arrival.channel);
  receiveUpTo(needed, program);
  if (failed(localize(op, layoutsOf[&op], program)))
    return failure();
  for (Value result : op.getResults())
    sendResult(result, program);
  return success();
}

void ProgramWriter::copyToUsers(Operation &op) {
  for (Value result : op.getResults())
    for (const User &user : users.lookup(result))
      programs[user.mesh]->get(result, user.layout);
}

void ProgramWriter::finish() {
  Operation *terminator = graph.getBody().front().getTerminator();
  for (auto &[mesh, program] : programs) {
    SmallVector<Value> outputs;
    for (const LocalProgram::Port &port : program->outputs)
      outputs.push_back(program->get(port.value, port.layout));
    OpBuilder builder = program->atEnd();
    dist::ReturnOp::create(builder, terminator->getLoc(), outputs);
  }
}

LogicalResult ProgramWriter::write() {
  if (failed(collectMeshes()) || failed(collectLayouts()) || failed(createPrograms()))
    return failure();
  for (Operation &op : graph.getBody().front().without_terminator()) {
    if (needsNoPlace(&op))
      continue;
    if (followsItsUsers(&op))
      copyToUsers(op);
    else if (failed(writeOperator(op)))
      return failure();
  }
  finish();
  return success();
}

} // namespace cleave
