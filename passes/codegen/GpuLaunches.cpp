// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides which operations share a launch: as many as can follow each other inside a group without asking other groups.

#include "passes/codegen/GpuLaunches.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

/// Threads that keep a GPU busy; where a launch would have fewer, its parts are better as launches of their own.
static constexpr int64_t enoughThreads = 32 * 1024;

//===-- operations --------------------------------------------------------------------------------------------===//

/// The operation that joins the element of the init with something else, where that is all that becomes of it.
static Operation *joinIn(linalg::LinalgOp op, unsigned result) {
  Block *body = op.getBlock();
  BlockArgument soFar = op.getMatchingBlockArgument(op.getDpsInitOperand(result));
  Operation *join = body->getTerminator()->getOperand(result).getDefiningOp();
  if (!join || join->getBlock() != body || !soFar.hasOneUse() || *soFar.user_begin() != join ||
      join->getNumOperands() != 2 || !join->hasOneUse())
    return nullptr;
  bool joins = isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp, arith::AddIOp, arith::MulIOp,
                   arith::MaxSIOp, arith::MinSIOp, arith::AndIOp, arith::OrIOp>(join);
  return joins ? join : nullptr;
}

Operation *GpuStep::joinOf(unsigned result) const { return joinIn(op, result); }

static bool hasReduction(const Nest &nest) {
  return llvm::any_of(llvm::zip(nest.reduction, nest.sizes), [](auto pair) {
    auto [isReduction, size] = pair;
    return isReduction && size > 1;
  });
}

/// Whether a result lies at other places in other iterations of the reduction.
static bool movesAlongReduction(const Nest &nest, OpOperand &init) {
  const auto &access = nest.accesses[init.getOperandNumber()];
  for (unsigned loop = 0; access && loop < nest.sizes.size(); ++loop)
    if (nest.reduction[loop] && nest.sizes[loop] > 1 && access->coefficients[loop] != 0)
      return true;
  return false;
}

static GpuStep::Kind reductionKind(const Nest &nest) {
  linalg::LinalgOp op = nest.op;
  for (auto [i, init] : llvm::enumerate(op.getDpsInitsMutable()))
    if (movesAlongReduction(nest, init) || !joinIn(op, i) || !arith::getNeutralElement(joinIn(op, i)))
      return GpuStep::Sequence;
  return GpuStep::Join;
}

/// The value that a tensor has everywhere.
static TypedAttr splatOf(Value tensor) {
  auto fill = tensor.getDefiningOp<linalg::FillOp>();
  auto constant = fill ? fill.getInputs()[0].getDefiningOp<arith::ConstantOp>() : nullptr;
  return constant ? constant.getValue() : TypedAttr();
}

static SmallVector<TypedAttr, 2> startsOf(const Nest &nest, bool plain) {
  linalg::LinalgOp op = nest.op;
  SmallVector<TypedAttr, 2> starts;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    bool isRead = op.payloadUsesValueFromOperand(&init);
    starts.push_back(isRead && !plain && !movesAlongReduction(nest, init) ? splatOf(init.get()) : TypedAttr());
  }
  return starts;
}

/// Buffers that the body reads at indices of its own.
static SmallVector<unsigned> extractedBuffers(linalg::LinalgOp op, const Storage &storage) {
  SmallVector<unsigned> buffers;
  op.getBlock()->walk([&](tensor::ExtractOp extract) {
    if (const View *view = storage.find(extract.getTensor()))
      buffers.push_back(view->buffer);
  });
  return buffers;
}

static bool readsOperand(const GpuStep &step, OpOperand &operand) {
  linalg::LinalgOp op = step.op;
  if (!op.isDpsInit(&operand))
    return !op.getMatchingBlockArgument(&operand).use_empty();
  unsigned result = operand.getOperandNumber() - op.getNumDpsInputs();
  return op.payloadUsesValueFromOperand(&operand) && !step.starts[result];
}

//===-- groups of steps ---------------------------------------------------------------------------------------===//

namespace {

/// Steps that may share a launch, and their dimensions.
class StepGroup {
public:
  StepGroup(const Storage &storage, ArrayRef<Buffer> buffers, bool plain)
      : storage(storage), buffers(buffers), plain(plain) {}

  bool isEmpty() const { return launch.steps.empty(); }
  /// Adds a nest; false, and no change, where it must not share the launch.
  bool add(const Nest &nest);
  /// The launch of all steps.
  GpuLaunch finish() const { return launch; }
  SmallVector<bool> getInner() const { return isInner; }

private:
  struct Written {
    unsigned step;
    Access access;
  };

  bool tryAdd(const Nest &nest);
  bool linkLoops(const Nest &nest, GpuStep &step);
  void placeLoops(const Nest &nest, GpuStep &step);
  double distance(const Nest &nest, unsigned loop, unsigned dim) const;
  bool classify();
  bool writesSafely(const GpuStep &step) const;
  bool choosePhases();
  std::optional<unsigned> lastWriter(unsigned buffer, unsigned before) const;

  const Storage &storage;
  ArrayRef<Buffer> buffers;
  bool plain;
  GpuLaunch launch;
  SmallVector<bool> isInner;
  /// Of each step: whether each of its dimensions is one of a reduction.
  std::vector<SmallVector<bool, 6>> reductions;
};

} // namespace

bool StepGroup::add(const Nest &nest) {
  if (plain && !isEmpty())
    return false;
  StepGroup extended = *this;
  if (!extended.tryAdd(nest))
    return false;
  launch = std::move(extended.launch);
  isInner = std::move(extended.isInner);
  reductions = std::move(extended.reductions);
  return true;
}

/// The last step before `before` that writes a buffer.
std::optional<unsigned> StepGroup::lastWriter(unsigned buffer, unsigned before) const {
  for (unsigned i = before; i-- > 0;) {
    linalg::LinalgOp op = launch.steps[i].op;
    for (OpOperand &init : op.getDpsInitsMutable())
      if (launch.steps[i].accesses[init.getOperandNumber()]->buffer == buffer)
        return i;
  }
  return std::nullopt;
}

static const Access *writeAccess(const GpuStep &step, unsigned buffer) {
  linalg::LinalgOp op = step.op;
  for (OpOperand &init : op.getDpsInitsMutable())
    if (const auto &access = step.accesses[init.getOperandNumber()]; access && access->buffer == buffer)
      return &*access;
  return nullptr;
}

bool StepGroup::tryAdd(const Nest &nest) {
  GpuStep step;
  step.op = nest.op;
  step.starts = startsOf(nest, plain);
  step.dims.assign(nest.sizes.size(), std::nullopt);
  if (!linkLoops(nest, step))
    return false;
  placeLoops(nest, step);
  for (const std::optional<Access> &access : nest.accesses) {
    step.accesses.push_back(access);
    if (!access)
      continue;
    step.accesses.back()->coefficients.assign(launch.sizes.size(), 0);
    for (unsigned loop = 0; loop < nest.sizes.size(); ++loop)
      if (step.dims[loop])
        step.accesses.back()->coefficients[*step.dims[loop]] = access->coefficients[loop];
  }
  step.kind = hasReduction(nest) ? reductionKind(nest) : GpuStep::Map;
  if (!writesSafely(step))
    return false;
  reductions.emplace_back(launch.sizes.size(), false);
  for (unsigned loop = 0; loop < nest.sizes.size(); ++loop)
    if (step.dims[loop])
      reductions.back()[*step.dims[loop]] = nest.reduction[loop];
  launch.steps.push_back(std::move(step));
  if (!classify() || !choosePhases())
    return false;
  chooseMapping(launch, isInner, buffers, plain);
  // Several phases need a group's threads in one block.
  bool hasLaterLoops =
      llvm::any_of(launch.steps, [](const GpuStep &other) { return other.isInner() && other.phase > 0; });
  return !hasLaterLoops || launch.blocks * launch.threads >= enoughThreads ||
         launch.outerSize * launch.innerSize <= 16 * enoughThreads;
}

/// Finds the dimensions of loops from what earlier steps wrote and this one reads: the same iteration must do both.
bool StepGroup::linkLoops(const Nest &nest, GpuStep &step) {
  linalg::LinalgOp op = nest.op;
  unsigned count = launch.steps.size();
  for (unsigned buffer : extractedBuffers(op, storage))
    if (lastWriter(buffer, count))
      return false;
  for (OpOperand &operand : op->getOpOperands()) {
    const auto &access = nest.accesses[operand.getOperandNumber()];
    if (!access || !readsOperand(step, operand))
      continue;
    auto writer = lastWriter(access->buffer, count);
    if (!writer)
      continue;
    const Access &written = *writeAccess(launch.steps[*writer], access->buffer);
    if (written.offset != access->offset)
      return false;
    SmallVector<bool> matched(launch.sizes.size(), false);
    for (unsigned loop = 0; loop < nest.sizes.size(); ++loop) {
      if (nest.sizes[loop] == 1 || access->coefficients[loop] == 0)
        continue;
      std::optional<unsigned> found;
      for (unsigned dim = 0; dim < written.coefficients.size(); ++dim)
        if (!matched[dim] && written.coefficients[dim] == access->coefficients[loop] &&
            launch.sizes[dim] == nest.sizes[loop])
          found = dim;
      if (!found || (step.dims[loop] && step.dims[loop] != found))
        return false;
      for (unsigned other = 0; other < nest.sizes.size(); ++other)
        if (other != loop && step.dims[other] == found)
          return false;
      step.dims[loop] = found;
      matched[*found] = true;
    }
    for (unsigned dim = 0; dim < written.coefficients.size(); ++dim)
      if (written.coefficients[dim] != 0 && !matched[dim])
        return false;
  }
  return true;
}

/// How many accesses of a step that reads the same memory move otherwise along the dimension than `nest` along `loop`.
double StepGroup::distance(const Nest &nest, unsigned loop, unsigned dim) const {
  double result = 0;
  for (const std::optional<Access> &access : nest.accesses)
    for (const GpuStep &step : launch.steps)
      for (const std::optional<Access> &other : step.accesses)
        if (access && other && access->buffer == other->buffer && dim < other->coefficients.size())
          result += access->coefficients[loop] != other->coefficients[dim];
  return result;
}

/// Gives the other loops dimensions: those of their size that suit best, or new ones.
void StepGroup::placeLoops(const Nest &nest, GpuStep &step) {
  for (unsigned loop = 0; loop < nest.sizes.size(); ++loop) {
    if (step.dims[loop] || nest.sizes[loop] == 1)
      continue;
    std::optional<unsigned> best;
    for (unsigned dim = 0; dim < launch.sizes.size(); ++dim) {
      bool isTaken = llvm::is_contained(step.dims, std::optional<unsigned>(dim));
      if (isTaken || launch.sizes[dim] != nest.sizes[loop])
        continue;
      if (!best || distance(nest, loop, dim) < distance(nest, loop, *best))
        best = dim;
    }
    if (!best) {
      best = launch.sizes.size();
      launch.sizes.push_back(nest.sizes[loop]);
      for (GpuStep &other : launch.steps)
        for (std::optional<Access> &access : other.accesses)
          if (access)
            access->coefficients.push_back(0);
      for (auto &flags : reductions)
        flags.push_back(false);
    }
    step.dims[loop] = best;
  }
}

/// Whether no other thread needs what the step writes, or writes what it wrote: what earlier steps read or wrote there
/// must be the same iteration's.
bool StepGroup::writesSafely(const GpuStep &step) const {
  linalg::LinalgOp op = step.op;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    const Access &write = *step.accesses[init.getOperandNumber()];
    for (const GpuStep &earlier : launch.steps) {
      if (llvm::is_contained(extractedBuffers(earlier.op, storage), write.buffer))
        return false;
      for (const std::optional<Access> &access : earlier.accesses)
        if (access && access->buffer == write.buffer &&
            (access->offset != write.offset || access->coefficients != write.coefficients))
          return false;
    }
  }
  return true;
}

/// Whether the body is too much work to be done by all lanes of a group.
static bool hasLoops(linalg::LinalgOp op) {
  return llvm::any_of(op.getBlock()->getOperations(), [](Operation &inner) { return inner.getNumRegions() > 0; });
}

/// Tells inner dimensions from outer ones. All steps have all outer dimensions, and all inner ones or none.
bool StepGroup::classify() {
  unsigned count = launch.sizes.size();
  auto dimsOf = [&](const GpuStep &step) {
    SmallVector<bool> has(count, false);
    for (std::optional<unsigned> dim : step.dims)
      if (dim)
        has[*dim] = true;
    return has;
  };
  isInner.assign(count, false);
  const GpuStep *reduction = nullptr;
  for (auto [step, reduced] : llvm::zip(launch.steps, reductions)) {
    if (!llvm::is_contained(reduced, true))
      continue;
    if (reduction && (!llvm::equal(isInner, reduced) || dimsOf(step) != dimsOf(*reduction)))
      return false;
    isInner.assign(reduced.begin(), reduced.end());
    reduction = &step;
  }
  if (!reduction) {
    // What some steps have and others lack.
    for (unsigned dim = 0; dim < count; ++dim)
      isInner[dim] = llvm::any_of(launch.steps, [&](const GpuStep &step) { return !dimsOf(step)[dim]; });
  }
  bool hasSequence = false;
  for (auto [step, reduced] : llvm::zip(launch.steps, reductions)) {
    SmallVector<bool> has = dimsOf(step);
    unsigned inner = 0, all = 0;
    for (unsigned dim = 0; dim < count; ++dim) {
      if (!isInner[dim] && !has[dim])
        return false;
      inner += isInner[dim] && has[dim];
      all += isInner[dim];
    }
    if (inner != 0 && inner != all)
      return false;
    if (inner < all && hasLoops(step.op))
      return false;
    if (!llvm::is_contained(reduced, true))
      step.kind = inner == 0 ? GpuStep::Once : GpuStep::Map;
    hasSequence |= step.kind == GpuStep::Sequence;
  }
  // A sequence has its loop to itself.
  return !hasSequence || llvm::count_if(launch.steps, [](const GpuStep &step) { return step.isInner(); }) == 1;
}

/// A step runs as early as what it reads is there, and what it writes nobody needs any more.
bool StepGroup::choosePhases() {
  for (auto [i, step] : llvm::enumerate(launch.steps)) {
    step.phase = 0;
    for (auto [j, earlier] : llvm::enumerate(ArrayRef(launch.steps).take_front(i))) {
      bool after = false, before = false;
      for (const std::optional<Access> &access : step.accesses)
        after |= access && writeAccess(earlier, access->buffer);
      for (const std::optional<Access> &access : earlier.accesses)
        before |= access && writeAccess(step, access->buffer);
      if (!after && !before)
        continue;
      // Values of the group are there after a loop that joins them, and are written before the loop of their phase.
      bool isNext = earlier.isInner() && (step.kind == GpuStep::Once || (after && earlier.kind != GpuStep::Map));
      step.phase = std::max(step.phase, earlier.phase + (isNext ? 1 : 0));
    }
  }
  return true;
}

//===-- the kernel --------------------------------------------------------------------------------------------===//

namespace {

class LaunchPlanner {
public:
  LaunchPlanner(Block &block, const Storage &storage, bool plain) : block(block), storage(storage), plain(plain) {}

  GpuKernelPlan run() {
    plan.buffers.assign(storage.getBuffers().begin(), storage.getBuffers().end());
    findWork();
    groupNests();
    chooseStores();
    placeTemporaries();
    return std::move(plan);
  }

private:
  void findWork();
  void groupNests();
  void finishLaunch(const StepGroup &group);
  void splitLaunch(GpuLaunch launch, const SmallVector<bool> &isInner);
  void chooseStores();
  void placeTemporaries();

  Block &block;
  const Storage &storage;
  bool plain;
  std::vector<Nest> nests;
  GpuKernelPlan plan;
};

} // namespace

/// All nests but those that do nothing, and fills that are nothing but the start of a sum.
void LaunchPlanner::findWork() {
  std::vector<Nest> all = findNests(block, storage);
  llvm::erase_if(all, [](const Nest &nest) { return nest.isEmpty(); });
  auto isOnlyStart = [&](const Nest &nest) {
    linalg::LinalgOp op = nest.op;
    auto fill = dyn_cast<linalg::FillOp>(op.getOperation());
    if (!fill || plain || !splatOf(fill.getResult(0)))
      return false;
    return llvm::all_of(fill.getResult(0).getUses(), [&](OpOperand &use) {
      auto user = llvm::find_if(all, [&](Nest &other) { return other.op.getOperation() == use.getOwner(); });
      if (user == all.end() || !user->op.isDpsInit(&use))
        return false;
      return startsOf(*user, plain)[use.getOperandNumber() - user->op.getNumDpsInputs()] != TypedAttr();
    });
  };
  for (const Nest &nest : all)
    if (!isOnlyStart(nest))
      nests.push_back(nest);
}

void LaunchPlanner::groupNests() {
  std::optional<StepGroup> group;
  for (const Nest &nest : nests) {
    if (group && group->add(nest))
      continue;
    if (group)
      finishLaunch(*group);
    group.emplace(storage, plan.buffers, plain);
    bool isAdded = group->add(nest);
    (void)isAdded;
    assert(isAdded && "every nest can have a launch of its own");
  }
  if (group)
    finishLaunch(*group);
}

void LaunchPlanner::finishLaunch(const StepGroup &group) {
  GpuLaunch launch = group.finish();
  bool joins = llvm::any_of(launch.steps, [](const GpuStep &step) { return step.kind == GpuStep::Join; });
  if (launch.splits > 1 && joins)
    return splitLaunch(std::move(launch), group.getInner());
  plan.launches.push_back(std::move(launch));
}

/// One launch that leaves partial results of each split in memory, and one that joins them and goes on.
void LaunchPlanner::splitLaunch(GpuLaunch launch, const SmallVector<bool> &isInner) {
  GpuLaunch second;
  Access position;
  position.coefficients.assign(launch.sizes.size(), 0);
  int64_t stride = 1;
  for (const GpuLevel &level : llvm::reverse(launch.outer))
    for (unsigned dim : llvm::reverse(level.dims)) {
      position.coefficients[dim] = stride;
      stride *= launch.sizes[dim];
    }
  for (GpuStep &step : launch.steps) {
    if (step.kind != GpuStep::Join)
      continue;
    linalg::LinalgOp op = step.op;
    for (Value result : op->getResults()) {
      step.partials.push_back(position);
      step.partials.back().buffer = plan.buffers.size();
      Type element = cast<RankedTensorType>(result.getType()).getElementType();
      plan.buffers.push_back({Buffer::Temporary, element, stride * launch.splits, 0, {}});
    }
  }
  // Those have the outer dimensions, and the splits as the inner one.
  SmallVector<unsigned> newDim(launch.sizes.size(), 0);
  for (unsigned dim = 0; dim < launch.sizes.size(); ++dim)
    if (!isInner[dim]) {
      newDim[dim] = second.sizes.size();
      second.sizes.push_back(launch.sizes[dim]);
    }
  unsigned splitDim = second.sizes.size();
  second.sizes.push_back(launch.splits);
  auto moved = [&](const Access &access, int64_t alongSplits) {
    Access result = access;
    result.coefficients.assign(second.sizes.size(), 0);
    for (unsigned dim = 0; dim < launch.sizes.size(); ++dim)
      if (!isInner[dim])
        result.coefficients[newDim[dim]] = access.coefficients[dim];
    result.coefficients[splitDim] = alongSplits;
    return result;
  };
  for (const GpuStep &step : launch.steps) {
    if (step.kind == GpuStep::Map)
      continue;
    GpuStep copy = step;
    for (std::optional<unsigned> &dim : copy.dims)
      dim = dim && !isInner[*dim] ? std::optional(newDim[*dim]) : std::nullopt;
    for (std::optional<Access> &access : copy.accesses)
      if (access)
        access = moved(*access, 0);
    for (Access &access : copy.partials)
      access = moved(access, stride);
    copy.joinsPartials = step.kind == GpuStep::Join;
    second.steps.push_back(std::move(copy));
  }
  llvm::erase_if(launch.steps, [](const GpuStep &step) { return step.kind == GpuStep::Once && step.phase > 0; });
  SmallVector<bool> inner(second.sizes.size(), false);
  inner[splitDim] = true;
  chooseMapping(second, inner, plan.buffers, /*plain=*/false);
  plan.launches.push_back(std::move(launch));
  plan.launches.push_back(std::move(second));
}

/// A result goes to memory where it is one of the kernel, or read by other launches, or by a later loop that no longer
/// has it in registers.
void LaunchPlanner::chooseStores() {
  SmallVector<bool> isLive(plan.buffers.size(), false);
  for (auto [index, buffer] : llvm::enumerate(plan.buffers))
    isLive[index] = buffer.kind == Buffer::Output;
  for (GpuLaunch &launch : llvm::reverse(plan.launches)) {
    SmallVector<bool> isRead(plan.buffers.size(), false);
    SmallVector<bool> isLiveBefore = isLive;
    bool isSplit = launch.splits > 1;
    for (size_t i = launch.steps.size(); i-- > 0;) {
      GpuStep &step = launch.steps[i];
      linalg::LinalgOp op = step.op;
      bool leavesPartials = !step.partials.empty() && !step.joinsPartials;
      // The launch that goes on stores what belongs to groups.
      bool isElsewhere =
          leavesPartials || (isSplit && step.kind == GpuStep::Once &&
                             llvm::any_of(launch.steps, [](const GpuStep &other) { return !other.partials.empty(); }));
      step.stored.clear();
      for (OpOperand &init : op.getDpsInitsMutable()) {
        unsigned buffer = step.accesses[init.getOperandNumber()]->buffer;
        bool isLost = !launch.unrolled && step.kind == GpuStep::Map &&
                      llvm::any_of(ArrayRef(launch.steps).drop_front(i + 1), [&](const GpuStep &later) {
                        return later.phase > step.phase && later.isInner() &&
                               llvm::any_of(later.accesses, [&](const std::optional<Access> &access) {
                                 return access && access->buffer == buffer;
                               });
                      });
        bool isLast = llvm::none_of(ArrayRef(launch.steps).drop_front(i + 1),
                                    [&](const GpuStep &later) { return writeAccess(later, buffer) != nullptr; });
        bool isMoved = step.kind == GpuStep::Sequence && llvm::any_of(launch.inner, [&](const GpuLevel &level) {
                         return level.step(*step.accesses[init.getOperandNumber()]) != 0;
                       });
        step.stored.push_back(!isElsewhere && (isLost || isMoved || (isLast && isLive[buffer])));
      }
      for (OpOperand &operand : op->getOpOperands())
        if (const auto &access = step.accesses[operand.getOperandNumber()]; access && readsOperand(step, operand))
          isLiveBefore[access->buffer] = true;
      for (unsigned buffer : extractedBuffers(op, storage))
        isLiveBefore[buffer] = true;
    }
    isLive = std::move(isLiveBefore);
  }
}

void LaunchPlanner::placeTemporaries() {
  plan.scratchOffsets.assign(plan.buffers.size(), std::nullopt);
  SmallVector<bool> isUsed(plan.buffers.size(), false);
  for (const GpuLaunch &launch : plan.launches)
    for (const GpuStep &step : launch.steps) {
      linalg::LinalgOp op = step.op;
      for (auto [init, stored] : llvm::zip(op.getDpsInitsMutable(), step.stored))
        if (stored)
          isUsed[step.accesses[init.getOperandNumber()]->buffer] = true;
      for (const Access &partial : step.partials)
        isUsed[partial.buffer] = true;
    }
  for (auto [index, buffer] : llvm::enumerate(plan.buffers)) {
    if (buffer.kind != Buffer::Temporary || !isUsed[index] || buffer.size == 0)
      continue;
    plan.scratchOffsets[index] = plan.scratchBytes;
    plan.scratchBytes += llvm::alignTo<64>(static_cast<uint64_t>(buffer.size * elementBytes(buffer.element)));
  }
}

GpuKernelPlan planLaunches(Block &block, const Storage &storage, bool plain) {
  return LaunchPlanner(block, storage, plain).run();
}

} // namespace cleave
