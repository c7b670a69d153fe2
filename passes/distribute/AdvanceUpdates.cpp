// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places what makes the next values of parameters beside the work that it needs nothing of (Passes.td says where).

#include "passes/distribute/Passes.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ADVANCEUPDATESPASS
#include "passes/distribute/Passes.h.inc"

namespace {

/// A collective that joins what devices computed, rather than moving what is there.
bool joins(Operation *op) {
  auto collective = dyn_cast<dist::Collective>(op);
  return collective && collective.getFromLayout(0).getPartial() != collective.getToLayout(0).getPartial();
}

/// The updates of one program. Positions are those of operators before the pass.
class ProgramUpdates {
public:
  ProgramUpdates(dist::ProgramOp program, SymbolTable &symbols)
      : body(program.getBody().front()), symbols(symbols), end(0) {
    for (Operation &op : body.without_terminator())
      positions[&op] = end++;
  }

  void run() {
    findUpdates();
    if (updates.empty())
      return;
    findReaders();
    findCommunication();
    for (Operation *op : updates)
      earliest[op] = earliestOf(op);
    for (Operation *op : llvm::reverse(updates))
      chosen[op] = chosenOf(op);
    move();
  }

private:
  /// Whether an operator computes element by element, be it a kernel already.
  bool isElementwise(Operation *op) {
    if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      auto kernel = symbols.lookup<plan::NativeKernelOp>(launch.getKernel());
      return kernel && llvm::all_of(kernel.getBody().front().without_terminator(), [](Operation &member) {
               return isa<ElementwiseInterface>(member) || member.hasTrait<OpTrait::ConstantLike>();
             });
    }
    return isa<ElementwiseInterface, dfg::ReshapeOp, plan::ViewOp>(op);
  }

  /// Whether nothing but what it reads says when an operator is to run: what is there from the beginning, elementwise
  /// operators, and what moves their results between devices.
  bool isFree(Operation *op) { return op->getNumOperands() == 0 || isa<dist::Collective>(op) || isElementwise(op); }

  /// Whether an operator of which all results lead to writes may move, too. Gradients and their sums over devices stand
  /// where the schedule has them; what makes a parameter's next value out of more than that can wait for who reads it.
  bool mayMove(Operation *op) {
    if (!isMemoryEffectFree(op) || op->use_empty() || joins(op))
      return false;
    return isFree(op) || llvm::any_of(op->getUsers(), [](Operation *user) { return isa<dist::WriteOp>(user); });
  }

  bool isUpdate(Operation *op) const { return earliest.contains(op); }

  void findUpdates() {
    for (Operation &op : llvm::reverse(body.without_terminator()))
      if (isa<dist::WriteOp>(op) ||
          (mayMove(&op) && llvm::all_of(op.getUsers(), [&](Operation *user) { return isUpdate(user); }))) {
        earliest[&op] = 0;
        updates.push_back(&op);
      }
    std::reverse(updates.begin(), updates.end());
  }

  /// Who reads the parameters, also through views.
  void findReaders() {
    llvm::MapVector<Operation *, Attribute> shown;
    for (Operation &op : body) {
      if (auto read = dyn_cast<dfg::ReadOp>(op))
        shown[&op] = read.getParameterAttr();
      else if (auto shard = dyn_cast<dist::ShardOfOp>(op))
        shown[&op] = shard.getParameterAttr();
      else if (isa<dfg::ReshapeOp, plan::ViewOp>(op))
        if (Attribute parameter = shown.lookup(op.getOperand(0).getDefiningOp()))
          shown[&op] = parameter;
    }
    for (auto [show, parameter] : shown)
      readers[parameter].append(show->user_begin(), show->user_end());
  }

  /// For every position, where the next collective stands that is no update, or the end; and where the next value is
  /// sent, or the position itself where one is received before.
  void findCommunication() {
    nextCollective.resize(end);
    nextSend.resize(end);
    unsigned collective = end - 1;
    std::optional<unsigned> send;
    for (Operation &op : llvm::reverse(body.without_terminator())) {
      unsigned position = positions.lookup(&op);
      nextCollective[position] = collective;
      if (isa<dist::Collective>(op) && !isUpdate(&op))
        collective = position;
      if (isa<dist::SendOp>(op))
        send = position;
      else if (isa<dist::ReceiveOp>(op))
        send = std::nullopt;
      nextSend[position] = send.value_or(position);
    }
  }

  unsigned standsBehind(Operation *op) const { return isUpdate(op) ? earliest.lookup(op) : positions.lookup(op); }

  /// Behind what it needs: where that comes from other devices, behind the beginning of the next message, so that there
  /// is work while it is on its way. A parameter's next value comes behind all who read the present one. Other devices
  /// do not wait for updates: what is to be sent goes first.
  unsigned earliestOf(Operation *op) {
    unsigned position = isFree(op) || isa<dist::WriteOp>(op) ? 0 : positions.lookup(op);
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer)
        continue;
      unsigned there = standsBehind(producer);
      if (isa<dist::Collective>(producer) && !isa<dist::WriteOp>(op))
        there = nextCollective[there];
      position = std::max(position, there);
    }
    for (Operation *user : op->getUsers())
      if (auto write = dyn_cast<dist::WriteOp>(user))
        for (Operation *reader : readers.lookup(write.getParameterAttr()))
          if (!isUpdate(reader) || positions.lookup(reader) < positions.lookup(op))
            position = std::max(position, standsBehind(reader));
    if (isa<dist::WriteOp>(op) || op->getNumOperands() == 0)
      return position;
    // What the step does before it sends anyway, as it adds up the gradients of a microbatch, does not wait for that.
    return std::max(position, std::min(nextSend[position], positions.lookup(op)));
  }

  /// What only leads to others comes with the first of them, so that nothing waits for them in memory; sums that stand
  /// before that stay, for the sake of what they sum up.
  unsigned chosenOf(Operation *op) {
    bool isLast = llvm::any_of(op->getUsers(), [](Operation *user) { return isa<dist::WriteOp>(user); });
    if (op->use_empty() || isLast)
      return earliest.lookup(op);
    unsigned position = positions.lookup(op);
    for (Operation *user : op->getUsers())
      position = std::min(position, chosen.lookup(user));
    return std::max(position, earliest.lookup(op));
  }

  void move() {
    std::vector<SmallVector<Operation *>> behind(end);
    for (Operation *op : updates)
      behind[chosen.lookup(op)].push_back(op);
    std::vector<Operation *> before(end);
    for (auto [op, position] : positions)
      before[position] = op;
    for (unsigned position = 0; position != end; ++position) {
      if (!isUpdate(before[position]))
        before[position]->moveBefore(body.getTerminator());
      for (Operation *op : behind[position])
        op->moveBefore(body.getTerminator());
    }
  }

  Block &body;
  SymbolTable &symbols;
  unsigned end;
  llvm::DenseMap<Operation *, unsigned> positions;
  /// What moves, in order.
  std::vector<Operation *> updates;
  llvm::DenseMap<Attribute, SmallVector<Operation *>> readers;
  std::vector<unsigned> nextCollective, nextSend;
  /// The position behind which an update can stand, and does.
  llvm::DenseMap<Operation *, unsigned> earliest, chosen;
};

class AdvanceUpdates : public impl::AdvanceUpdatesPassBase<AdvanceUpdates> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto program : getOperation().getOps<dist::ProgramOp>())
      ProgramUpdates(program, symbols).run();
  }
};

} // namespace
} // namespace cleave
