// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A nest joins a launch when its loops can be seen as the launch's dimensions, so that each value is read at the very
// iteration that wrote it.

#include "passes/codegen/GpuSteps.h"

#include "passes/codegen/NestBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

//===-- operations --------------------------------------------------------------------------------------------===//

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

GpuStep::Kind kindOf(const Nest &nest, bool hasInner) {
  if (!hasReduction(nest))
    return hasInner ? GpuStep::Map : GpuStep::Once;
  linalg::LinalgOp op = nest.op;
  for (auto [i, init] : llvm::enumerate(op.getDpsInitsMutable()))
    if (movesAlongReduction(nest, init) || !joinIn(op, i) || !arith::getNeutralElement(joinIn(op, i)))
      return GpuStep::Sequence;
  return GpuStep::Join;
}

TypedAttr splatOf(Value tensor) {
  auto fill = tensor.getDefiningOp<linalg::FillOp>();
  auto constant = fill ? fill.getInputs()[0].getDefiningOp<arith::ConstantOp>() : nullptr;
  return constant ? constant.getValue() : TypedAttr();
}

SmallVector<TypedAttr, 2> startsOf(const Nest &nest, bool readsFill) {
  linalg::LinalgOp op = nest.op;
  SmallVector<TypedAttr, 2> starts;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    bool isRead = op.payloadUsesValueFromOperand(&init);
    starts.push_back(isRead && !readsFill && !movesAlongReduction(nest, init) ? splatOf(init.get()) : TypedAttr());
  }
  return starts;
}

bool isOnlyStart(const Nest &nest, ArrayRef<Nest> all, bool readsFill) {
  linalg::LinalgOp op = nest.op;
  auto fill = dyn_cast<linalg::FillOp>(op.getOperation());
  if (!fill || readsFill || !splatOf(fill.getResult(0)))
    return false;
  return llvm::all_of(fill.getResult(0).getUses(), [&](OpOperand &use) {
    auto user = llvm::find_if(all, [&](const Nest &other) { return linalg::LinalgOp(other.op) == use.getOwner(); });
    if (user == all.end() || !linalg::LinalgOp(user->op).isDpsInit(&use))
      return false;
    linalg::LinalgOp reader = user->op;
    return startsOf(*user, readsFill)[use.getOperandNumber() - reader.getNumDpsInputs()] != TypedAttr();
  });
}

SmallVector<unsigned> extractedBuffers(linalg::LinalgOp op, const Storage &storage) {
  SmallVector<unsigned> buffers;
  op.getBlock()->walk([&](tensor::ExtractOp extract) {
    if (const View *view = storage.find(extract.getTensor()))
      buffers.push_back(view->buffer);
  });
  return buffers;
}

bool GpuStep::readsMemory(OpOperand &operand) const {
  linalg::LinalgOp self = op;
  if (!self.isDpsInit(&operand))
    return !joinsPartials && !self.getMatchingBlockArgument(&operand).use_empty();
  return self.payloadUsesValueFromOperand(&operand) && !starts[operand.getOperandNumber() - self.getNumDpsInputs()];
}

//===-- launches ----------------------------------------------------------------------------------------------===//

unsigned GpuLaunch::lastPhase() const {
  unsigned last = 0;
  for (const GpuStep &step : steps)
    last = std::max(last, step.phase);
  return last;
}

int64_t GpuLaunch::blocksNeeded() const {
  if (!squares)
    return llvm::divideCeil(outerUnits(), groups) * splits;
  int64_t blocks = 1;
  for (auto [number, level] : llvm::enumerate(outer))
    blocks *= number == squares->across || number + 1 == outer.size() ? llvm::divideCeil(level.size, squares->side)
                                                                      : level.size;
  return blocks;
}

//===-- groups of steps ---------------------------------------------------------------------------------------===//

bool StepGroup::add(const Nest &nest, bool keepsRegisters) {
  if (plain && !isEmpty())
    return false;
  StepGroup extended = *this;
  if (!extended.tryAdd(nest) || (keepsRegisters && launch.unrolled && !extended.launch.unrolled))
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

const Access *writeAccess(const GpuStep &step, unsigned buffer) {
  linalg::LinalgOp op = step.op;
  for (OpOperand &init : op.getDpsInitsMutable())
    if (const auto &access = step.accesses[init.getOperandNumber()]; access && access->buffer == buffer)
      return &*access;
  return nullptr;
}

bool StepGroup::tryAdd(const Nest &nest) {
  GpuStep step;
  step.op = nest.op;
  step.readsFill = plain;
  step.starts = startsOf(nest, step.readsFill);
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
  step.kind = kindOf(nest, /*hasInner=*/true);
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
  // Several phases need a group's threads in one block. Where these are too few to keep the GPU busy, the parts are
  // better as launches of their own.
  int64_t enoughThreads = launch.processors * threadsForMemory;
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
    if (!access || !step.readsMemory(operand))
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

std::optional<unsigned> firstPhaseAfter(const GpuStep &earlier, const GpuStep &step) {
  bool after = false, before = false;
  for (const std::optional<Access> &access : step.accesses)
    after |= access && writeAccess(earlier, access->buffer);
  for (const std::optional<Access> &access : earlier.accesses)
    before |= access && writeAccess(step, access->buffer);
  if (!after && !before)
    return std::nullopt;
  // Values of the group are there after a loop that joins them, and are written before the loop of their phase.
  bool isNext = earlier.isInner() && (step.kind == GpuStep::Once || (after && earlier.kind != GpuStep::Map));
  return earlier.phase + (isNext ? 1 : 0);
}

/// A step runs as early as what it reads is there, and what it writes nobody needs any more.
bool StepGroup::choosePhases() {
  for (auto [i, step] : llvm::enumerate(launch.steps)) {
    step.phase = 0;
    for (auto [j, earlier] : llvm::enumerate(ArrayRef(launch.steps).take_front(i))) {
      step.phase = std::max(step.phase, firstPhaseAfter(earlier, step).value_or(0));
    }
  }
  return true;
}

} // namespace cleave
