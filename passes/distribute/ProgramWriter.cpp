// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One walk over a placed graph that writes its programs.

#include "passes/distribute/ProgramWriter.h"

#include "passes/planner/ModelNode.h"

using namespace mlir;

namespace cleave {

FlatSymbolRefAttr meshOf(Operation *op) {
  dist::PlaceAttr place = dist::getPlace(op);
  return place ? place.getMesh() : FlatSymbolRefAttr();
}

LogicalResult checkPlaces(dfg::GraphOp graph) {
  auto module = graph->getParentOfType<ModuleOp>();
  llvm::DenseSet<Attribute> known;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    dist::PlaceAttr place = dist::getPlace(&op);
    if (followsItsUsers(&op)) {
      if (place)
        return op.emitOpError("expects no 'dist.place': it is copied to whoever uses it");
      continue;
    }
    if (!place)
      return op.emitOpError("expects a 'dist.place', found none; run --dist-place-operators before");
    if (place.getSplit() && !place.getSplit().getFactors().empty())
      return op.emitOpError("expects to be whole on one device, got ") << place.getSplit();
    if (!known.insert(place.getMesh()).second)
      continue;
    auto mesh = module.lookupSymbol<dist::MeshOp>(place.getMesh().getAttr());
    if (!mesh)
      return op.emitOpError("expects a 'dist.mesh' named '") << place.getMesh().getValue() << "', found none";
    if (mesh.getDevices().size() != 1)
      return op.emitOpError("expects a mesh of one device, got '")
             << mesh.getSymName() << "' of " << mesh.getDevices().size();
  }
  return success();
}

//===-- what goes where ---------------------------------------------------------------------------------------===//

void ProgramWriter::needOn(Value value, Attribute mesh) {
  Operation *producer = value.getDefiningOp();
  if (producer && meshOf(producer) == mesh)
    return;
  SmallVector<Attribute, 2> &meshes = users[value];
  if (!llvm::is_contained(meshes, mesh))
    meshes.push_back(mesh);
}

Attribute ProgramWriter::homeOf(Value output) {
  Operation *producer = output.getDefiningOp();
  FlatSymbolRefAttr mesh = producer ? meshOf(producer) : FlatSymbolRefAttr();
  return mesh ? Attribute(mesh) : programs.front().first;
}

void ProgramWriter::collectUses() {
  auto module = graph->getParentOfType<ModuleOp>();
  Block &body = graph.getBody().front();
  llvm::DenseSet<Attribute> used;
  for (Operation &op : body.without_terminator())
    used.insert(meshOf(&op));
  bool empty = llvm::none_of(used, [](Attribute mesh) { return mesh != nullptr; });
  for (auto mesh : module.getOps<dist::MeshOp>()) {
    auto name = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
    bool only = empty && programs.empty() && mesh.getDevices().size() == 1;
    if (used.contains(name) || only)
      programs[name];
  }
  if (programs.empty())
    return;
  for (Operation &op : body.without_terminator())
    if (Attribute mesh = meshOf(&op))
      for (Value operand : op.getOperands())
        needOn(operand, mesh);
  for (auto [index, output] : llvm::enumerate(body.getTerminator()->getOperands())) {
    Attribute home = homeOf(output);
    needOn(output, home);
    programs[home].outputs.push_back(index);
  }
  for (BlockArgument input : body.getArguments())
    for (Attribute mesh : users.lookup(input))
      programs[mesh].inputs.push_back(input.getArgNumber());
}

LogicalResult ProgramWriter::createPrograms() {
  auto module = graph->getParentOfType<ModuleOp>();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Block &body = graph.getBody().front();
  for (auto &[meshName, program] : programs) {
    auto mesh = cast<FlatSymbolRefAttr>(meshName);
    std::string name = (graph.getSymName() + "." + mesh.getValue()).str();
    if (Operation *symbol = module.lookupSymbol(name))
      return symbol->emitError("expects the name \"")
             << name << "\" to be free for the program of graph \"" << graph.getSymName() << "\" on mesh \""
             << mesh.getValue() << "\"";
    SmallVector<Type> inputs, outputs;
    for (unsigned index : program.inputs)
      inputs.push_back(body.getArgument(index).getType());
    for (unsigned index : program.outputs)
      outputs.push_back(body.getTerminator()->getOperand(index).getType());
    program.op = dist::ProgramOp::create(builder, graph.getLoc(), name, builder.getFunctionType(inputs, outputs), mesh);
    for (auto [position, index] : llvm::enumerate(program.inputs)) {
      program.op.setArgAttr(position, dist::inputAttrName, builder.getI64IntegerAttr(index));
      program.values.map(body.getArgument(index), program.op.getArgument(position));
    }
    for (auto [position, index] : llvm::enumerate(program.outputs))
      program.op.setResultAttr(position, dist::outputAttrName, builder.getI64IntegerAttr(index));
  }
  return success();
}

//===-- the walk ----------------------------------------------------------------------------------------------===//

void ProgramWriter::receiveUpTo(int64_t channel, Program &program) {
  OpBuilder builder = OpBuilder::atBlockEnd(&program.op.getBody().front());
  while (!program.arrivals.empty() && program.arrivals.front().channel <= channel) {
    Arrival arrival = program.arrivals.front();
    program.arrivals.pop_front();
    Value received = dist::ReceiveOp::create(builder, arrival.value.getLoc(), arrival.value.getType(), arrival.source,
                                             builder.getI64IntegerAttr(arrival.channel));
    program.values.map(arrival.value, received);
  }
}

void ProgramWriter::sendResult(Value result, FlatSymbolRefAttr mesh, Program &program) {
  OpBuilder builder = OpBuilder::atBlockEnd(&program.op.getBody().front());
  for (Attribute target : users.lookup(result)) {
    dist::SendOp::create(builder, result.getLoc(), program.values.lookup(result), cast<FlatSymbolRefAttr>(target),
                         builder.getI64IntegerAttr(nextChannel));
    programs[target].arrivals.push_back({result, mesh, nextChannel});
    ++nextChannel;
  }
}

void ProgramWriter::copyOperator(Operation &op) {
  FlatSymbolRefAttr mesh = meshOf(&op);
  Program &program = programs[mesh];
  bool sends = llvm::any_of(op.getResults(), [&](Value result) { return users.contains(result); });
  int64_t needed = sends ? nextChannel : -1;
  for (const Arrival &arrival : program.arrivals)
    if (llvm::is_contained(op.getOperands(), arrival.value))
      needed = std::max(needed, arrival.channel);
  receiveUpTo(needed, program);
  Operation *copy = OpBuilder::atBlockEnd(&program.op.getBody().front()).clone(op, program.values);
  copy->removeDiscardableAttr(dist::placeAttrName);
  copy->removeDiscardableAttr(dist::groupAttrName);
  for (Value result : op.getResults())
    sendResult(result, mesh, program);
}

void ProgramWriter::copyToUsers(Operation &op) {
  llvm::SmallSetVector<Attribute, 4> meshes;
  for (Value result : op.getResults())
    for (Attribute mesh : users.lookup(result))
      meshes.insert(mesh);
  for (Attribute mesh : meshes) {
    Program &program = programs[mesh];
    Operation *copy = OpBuilder::atBlockEnd(&program.op.getBody().front()).clone(op, program.values);
    copy->removeDiscardableAttr(dist::groupAttrName);
  }
}

void ProgramWriter::finish() {
  Operation *terminator = graph.getBody().front().getTerminator();
  for (auto &[mesh, program] : programs) {
    OpBuilder builder = OpBuilder::atBlockEnd(&program.op.getBody().front());
    SmallVector<Value> outputs;
    for (unsigned index : program.outputs)
      outputs.push_back(program.values.lookup(terminator->getOperand(index)));
    dist::ReturnOp::create(builder, terminator->getLoc(), outputs);
  }
}

LogicalResult ProgramWriter::write() {
  collectUses();
  if (programs.empty())
    return graph.emitOpError("expects a 'dist.mesh' of one device in the module, found none");
  if (failed(createPrograms()))
    return failure();
  for (Operation &op : graph.getBody().front().without_terminator()) {
    if (followsItsUsers(&op))
      copyToUsers(op);
    else
      copyOperator(op);
  }
  finish();
  return success();
}

} // namespace cleave
