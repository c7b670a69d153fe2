// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters of which devices keep parts (ZeRO 3): every task gathers the whole for itself. It sees the parameter
// through a barrier of its own, so that it does not share what another task has gathered, which would have to be kept
// until then.

#include "passes/train/StepWriter.h"

#include "dialects/interfaces/SplitRule.h"

using namespace mlir;

namespace cleave {

void StepWriter::beginGathers(unsigned stage, bool isForward) {
  Gathered &gathered = gathers[stages[stage].mesh];
  llvm::DenseMap<Value, Value> kept;
  if (gathered.stage == stage && gathered.isForward != isForward) {
    int64_t bytes = 0, largest = 0;
    for (Value read : gathered.used)
      largest = std::max(largest, tensorBytes(read.getType()));
    for (Value read : llvm::reverse(gathered.used)) {
      if (bytes >= largest)
        break;
      kept[read] = gathered.current[read];
      bytes += tensorBytes(read.getType());
    }
  }
  gathered = {stage, isForward, {}, std::move(kept)};
}

LogicalResult StepWriter::gatherFor(ArrayRef<Operation *> operators, unsigned stage) {
  if (shownReads.empty())
    return success();
  OpBuilder::InsertionGuard guard(builder);
  Gathered &gathered = gathers[stages[stage].mesh];
  llvm::DenseSet<Operation *> own(operators.begin(), operators.end());
  llvm::DenseMap<Value, Value> known;
  for (Operation *op : operators) {
    builder.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands()) {
      auto value = inTask(operand.get(), gathered, own, known);
      if (failed(value))
        return failure();
      operand.set(*value);
    }
  }
  recorder.take();
  return success();
}

FailureOr<Value> StepWriter::inTask(Value value, Gathered &gathered, const llvm::DenseSet<Operation *> &operators,
                                    llvm::DenseMap<Value, Value> &known) {
  if (Value found = known.lookup(value); found && !shownReads.contains(value))
    return found;
  Operation *producer = value.getDefiningOp();
  if (Value read = shownReads.lookup(value)) {
    const Parameter &parameter = parameters.find(read.getDefiningOp<dfg::ReadOp>().getParameterAttr())->second;
    FlatSymbolRefAttr mesh = dist::getPlace(read.getDefiningOp()).getMesh();
    // What other meshes use is sent to them whole.
    if (mesh != stages[gathered.stage].mesh)
      return value;
    gathered.used.remove(read);
    gathered.used.insert(read);
    Value &current = gathered.current[read];
    if (current)
      return current;
    recorder.take();
    current = dfg::BarrierOp::create(builder, read.getLoc(), read, barriers++);
    shownReads[current] = read;
    if (failed(placeCreated(mesh, "home", {{read, parameter.home}, {current, parameter.home}})))
      return failure();
    return current;
  }
  if (!producer || operators.contains(producer) || producer->getNumOperands() != 1 || producer->getNumResults() != 1 ||
      !isa<ElementwiseInterface>(producer))
    return value;
  auto operand = inTask(producer->getOperand(0), gathered, operators, known);
  if (failed(operand))
    return failure();
  if (*operand == producer->getOperand(0))
    return value;
  Operation *copy = builder.clone(*producer);
  copy->setOperand(0, *operand);
  return known[value] = copy->getResult(0);
}

} // namespace cleave
