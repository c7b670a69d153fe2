// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets collectives that become ready near each other share a message (Passes.td says when a message is full). The idea
// is that of DistributedDataParallel's buckets (Li et al. 2020, "PyTorch Distributed") and of XLA's combiners.

#include "passes/distribute/CombineCollectives.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Accumulation.h"
#include "dialects/dist/Layout.h"
#include "passes/cost/CostAnalysis.h"
#include "passes/distribute/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

#include <cmath>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_COMBINECOLLECTIVESPASS
#include "passes/distribute/Passes.h.inc"

double bucketBytes(double bytes, llvm::function_ref<double(double bytes)> seconds) {
  double latency = seconds(0), transfer = seconds(bytes) - latency;
  return transfer > 0 ? bytes * std::sqrt(latency / transfer) : bytes;
}

namespace {

/// What one of a program's collectives costs.
using Seconds = std::function<double(dist::Collective collective, double bytes)>;

/// The collectives of one program.
class ProgramCombiner {
public:
  ProgramCombiner(dist::ProgramOp program, const Seconds &seconds)
      : program(program), body(program.getBody().front()), mesh(dist::getMesh(&body.front())), seconds(seconds) {
    findChanging();
  }

  void run() {
    for (Attribute kind : kinds())
      combineKind(kind);
  }

private:
  /// A collective, between the positions of the last operator that it has to stand behind (0: of none) and of the first
  /// one that depends on it.
  struct Candidate {
    dist::Collective op;
    unsigned ready = 0, needed = 0;
    double bytes = 0;
  };
  using Bucket = SmallVector<Candidate>;

  /// What depends on nothing that changes from step to step runs once, unless it travels with something that does.
  /// What another mesh sends may last from step to step or not: that is for its program to know.
  void findChanging() {
    changing.insert(body.getArguments().begin(), body.getArguments().end());
    for (Operation &op : body) {
      auto reads = [&](const llvm::DenseSet<Value> &values) {
        return llvm::any_of(op.getOperands(), [&](Value operand) { return values.contains(operand); });
      };
      bool isReceived = isa<dist::ReceiveOp>(op);
      if (op.hasAttr(dist::changesAttrName) || (!isMemoryEffectFree(&op) && !isReceived) || reads(changing))
        changing.insert(op.result_begin(), op.result_end());
      else if (isReceived || reads(received))
        received.insert(op.result_begin(), op.result_end());
    }
  }

  /// What collectives have in common that can travel together; null for those that travel alone.
  Attribute kindOf(Operation &op) const {
    auto collective = dyn_cast<dist::Collective>(op);
    if (!collective || !collective.carriesSeveral() ||
        llvm::any_of(op.getOperands(), [&](Value operand) { return received.contains(operand); }))
      return {};
    dist::Axes axes = dist::joinedAxes(collective, 0, mesh);
    if (axes.empty())
      return {};
    Builder builder(op.getContext());
    SmallVector<Attribute> kind(axes.begin(), axes.end());
    kind.push_back(builder.getStringAttr(op.getName().getStringRef()));
    kind.push_back(TypeAttr::get(getElementTypeOrSelf(op.getOperand(0))));
    kind.push_back(builder.getStringAttr(dist::combinerName(collective.getFromLayout(0).getCombiner())));
    kind.push_back(builder.getBoolAttr(changing.contains(op.getOperand(0))));
    return builder.getArrayAttr(kind);
  }

  llvm::SetVector<Attribute> kinds() const {
    llvm::SetVector<Attribute> list;
    for (Operation &op : body)
      if (Attribute kind = kindOf(op))
        list.insert(kind);
    return list;
  }

  /// What is there from the beginning, and scalars of it: a rate by which gradients are scaled. Not what collectives
  /// bring, however small: another one that needs it cannot travel with them.
  bool isEarly(Operation *op) {
    auto [known, isNew] = early.try_emplace(op, false);
    if (!isNew || !isMemoryEffectFree(op) || isa<dist::Collective>(op))
      return known->second;
    bool isScalar = llvm::all_of(op->getResultTypes(),
                                 [](Type type) { return cast<RankedTensorType>(type).getNumElements() == 1; });
    bool result = op->getNumOperands() == 0 || (isScalar && llvm::all_of(op->getOperands(), [&](Value operand) {
                                                  return operand.getDefiningOp() && isEarly(operand.getDefiningOp());
                                                }));
    return early[op] = result;
  }

  /// Writes, and elementwise operators and other collectives that lead to nothing else: the step can do them at any
  /// time. Collectives of the kind at hand cannot share a message with what they depend on.
  bool isLate(Operation *op) {
    if (isa<dist::WriteOp>(op))
      return true;
    auto [known, isNew] = late.try_emplace(op, false);
    if (!isNew || !isa<ElementwiseInterface, dist::Collective>(op) || kindOf(*op) == currentKind ||
        !isMemoryEffectFree(op) || op->use_empty())
      return known->second;
    bool result = llvm::all_of(op->getUsers(), [&](Operation *user) { return isLate(user); });
    return late[op] = result;
  }

  /// Where the last operator stands that a value needs and that keeps its place. Elementwise ones of which nobody else
  /// reads anything move: an optimizer may scale a gradient long after the backward pass.
  unsigned readyPosition(Value value) {
    Operation *producer = value.getDefiningOp();
    if (!producer || isEarly(producer))
      return 0;
    // What follows from a collective stays behind all who need that one's result.
    bool follows = llvm::any_of(producer->getOperands(), [](Value operand) {
      return isa_and_present<dist::Collective>(operand.getDefiningOp());
    });
    if (follows || !isa<ElementwiseInterface>(producer) || !producer->hasOneUse() || !isMemoryEffectFree(producer))
      return positions.lookup(producer);
    unsigned position = 0;
    for (Value operand : producer->getOperands())
      position = std::max(position, readyPosition(operand));
    return position;
  }

  Candidate candidateOf(dist::Collective op) {
    Candidate candidate{op, 0, positions.lookup(body.getTerminator()), 0};
    for (Value operand : op->getOperands()) {
      candidate.ready = std::max(candidate.ready, readyPosition(operand));
      candidate.bytes += static_cast<double>(tensorBytes(operand.getType()));
    }
    double held = 0;
    for (Value result : op->getResults()) {
      held += static_cast<double>(tensorBytes(result.getType()));
      for (Operation *user : result.getUsers())
        if (!isLate(user))
          candidate.needed = std::min(candidate.needed, positions.lookup(user));
    }
    // The bytes of the whole: of what is joined or gathered.
    candidate.bytes = std::max(candidate.bytes, held);
    return candidate;
  }

  void combineKind(Attribute kind) {
    currentKind = kind;
    positions.clear();
    early.clear();
    late.clear();
    operations.assign(1, nullptr);
    for (Operation &op : body) {
      positions[&op] = static_cast<unsigned>(operations.size());
      operations.push_back(&op);
    }
    Bucket all;
    double bytes = 0;
    for (Operation &op : body)
      if (kindOf(op) == kind) {
        all.push_back(candidateOf(cast<dist::Collective>(op)));
        bytes += all.back().bytes;
      }
    llvm::stable_sort(all, [](const Candidate &left, const Candidate &right) {
      return std::pair(left.ready, left.needed) < std::pair(right.ready, right.needed);
    });
    double most = bucketBytes(bytes, [&](double size) { return seconds(all.front().op, size); });
    for (const Bucket &bucket : bucketsOf(all, most, mostGathered(all, most)))
      combine(bucket);
  }

  /// What is there in parts from the beginning, and whole while it is used, is kept in parts to save memory. So a
  /// bucket of it is also full at the bytes of the largest, which is there as a whole at some time in any case. What
  /// does not change from step to step is gathered for good.
  double mostGathered(ArrayRef<Candidate> all, double most) const {
    dist::Collective first = all.front().op;
    if (first.getFromLayout(0).getPartial() != first.getToLayout(0).getPartial() ||
        !changing.contains(first->getOperand(0)))
      return most;
    double largest = 0;
    for (const Candidate &candidate : all)
      if (candidate.ready == 0)
        largest = std::max(largest, candidate.bytes);
    return std::min(most, largest);
  }

  /// What a bucket has no two collectives of: a sum over the step to which their results are added, and what they
  /// gather.
  static llvm::SmallPtrSet<const void *, 2> marksOf(dist::Collective op) {
    llvm::SmallPtrSet<const void *, 2> marks;
    if (op.getFromLayout(0).getPartial() == op.getToLayout(0).getPartial())
      for (Value operand : op->getOperands())
        marks.insert(operand.getAsOpaquePointer());
    for (Operation *user : op->getUsers())
      if (user->hasAttr(dist::accumulatesAttrName))
        marks.insert(user);
    return marks;
  }

  /// In the order in which they become ready. A bucket is closed when it is full, before one that becomes ready only
  /// after something that depends on the bucket, and before the next gradient of the same parameter, or the same part
  /// of one again: sums of a step's microbatches, and what is not kept, are to need no more memory than before.
  static std::vector<Bucket> bucketsOf(ArrayRef<Candidate> all, double most, double mostGathered) {
    std::vector<Bucket> buckets;
    double bytes = 0;
    unsigned needed = 0;
    llvm::SmallPtrSet<const void *, 16> marks;
    for (const Candidate &candidate : all) {
      auto own = marksOf(candidate.op);
      bool repeats = llvm::any_of(own, [&](const void *mark) { return marks.contains(mark); });
      if (buckets.empty() || bytes >= (candidate.ready ? most : mostGathered) || candidate.ready >= needed || repeats) {
        buckets.emplace_back();
        bytes = 0;
        needed = candidate.needed;
        marks.clear();
      }
      marks.insert(own.begin(), own.end());
      buckets.back().push_back(candidate);
      bytes += candidate.bytes;
      needed = std::min(needed, candidate.needed);
    }
    return buckets;
  }

  /// Where the last of them becomes ready; where all can be at any time, in the place of the first.
  Operation *placeOf(const Bucket &bucket) const {
    if (unsigned ready = bucket.back().ready)
      return operations[ready]->getNextNode();
    auto before = [&](const Candidate &left, const Candidate &right) {
      return positions.lookup(left.op) < positions.lookup(right.op);
    };
    return llvm::min_element(bucket, before)->op;
  }

  /// Moves an operator in front of another one. Operation::moveBefore would have all of the block's numbered anew.
  static void move(Operation *op, Operation *before) {
    op->remove();
    before->getBlock()->getOperations().insert(before->getIterator(), op);
  }

  /// Moves what an operator needs in front of it, where it does not stand there.
  static void bringOperands(Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && op->isBeforeInBlock(producer)) {
        move(producer, op);
        bringOperands(producer);
      }
  }

  void combine(const Bucket &bucket) {
    if (bucket.size() == 1) {
      Operation *op = bucket.front().op, *place = placeOf(bucket);
      if (place != op)
        move(op, place);
      return bringOperands(op);
    }
    SmallVector<Location> locations;
    SmallVector<Attribute> from, to;
    Operation *place = placeOf(bucket);
    OperationState state(program.getLoc(), bucket.front().op->getName());
    for (const Candidate &candidate : bucket) {
      dist::Collective op = candidate.op;
      locations.push_back(op->getLoc());
      state.addOperands(op->getOperands());
      state.addTypes(op->getResultTypes());
      for (unsigned index = 0; index != op->getNumOperands(); ++index) {
        from.push_back(op.getFromLayout(index));
        to.push_back(op.getToLayout(index));
      }
    }
    OpBuilder builder(place);
    state.location = FusedLoc::get(program.getContext(), locations);
    state.addAttribute("from", builder.getArrayAttr(from));
    state.addAttribute("to", builder.getArrayAttr(to));
    if (Attribute again = bucket.front().op->getAttr(dist::againAttrName))
      state.addAttribute(dist::againAttrName, again);
    Operation *combined = builder.create(state);
    bringOperands(combined);
    replace(bucket, combined);
  }

  /// What leads to writes alone follows the collective where it stood before it.
  void replace(const Bucket &bucket, Operation *combined) {
    unsigned next = 0;
    for (const Candidate &candidate : bucket) {
      for (Value result : candidate.op->getResults())
        result.replaceAllUsesWith(combined->getResult(next++));
      candidate.op->erase();
    }
    if (changing.contains(combined->getOperand(0)))
      changing.insert(combined->result_begin(), combined->result_end());
    llvm::SetVector<Operation *> moved;
    auto addUsers = [&](Operation *op) {
      for (Operation *user : op->getUsers())
        if (user->isBeforeInBlock(combined))
          moved.insert(user);
    };
    addUsers(combined);
    for (size_t next = 0; next != moved.size(); ++next)
      addUsers(moved[next]);
    SmallVector<Operation *> inOrder = moved.takeVector();
    llvm::sort(inOrder, [](Operation *left, Operation *right) { return left->isBeforeInBlock(right); });
    Operation *last = combined;
    for (Operation *op : inOrder) {
      move(op, last->getNextNode());
      last = op;
    }
  }

  dist::ProgramOp program;
  Block &body;
  dist::MeshShape mesh;
  const Seconds &seconds;
  /// Of the program's operators, counted from 1, and the other way round.
  llvm::DenseMap<Operation *, unsigned> positions;
  std::vector<Operation *> operations;
  llvm::DenseMap<Operation *, bool> early, late;
  Attribute currentKind;
  /// What changes from step to step, and what follows from other meshes alone.
  llvm::DenseSet<Value> changing, received;
};

class CombineCollectives : public impl::CombineCollectivesPassBase<CombineCollectives> {
  void runOnOperation() override {
    auto &costs = getAnalysis<CostAnalysis>();
    Seconds seconds = [&](dist::Collective collective, double bytes) {
      return costs.collectiveSeconds(collective, bytes);
    };
    for (auto program : getOperation().getOps<dist::ProgramOp>())
      ProgramCombiner(program, seconds).run();
  }
};

} // namespace
} // namespace cleave
