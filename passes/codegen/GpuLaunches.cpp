// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides the launches of a kernel: as many operations in each as can follow each other inside a group without asking
// other groups.

#include "passes/codegen/GpuLaunches.h"

#include "passes/codegen/GpuSteps.h"

using namespace mlir;

namespace cleave {

namespace {

class LaunchPlanner {
public:
  LaunchPlanner(Block &block, const Storage &storage, int64_t processors, bool plain)
      : block(block), storage(storage), processors(processors), plain(plain) {}

  GpuKernelPlan run() {
    plan.buffers.assign(storage.getBuffers().begin(), storage.getBuffers().end());
    findWork();
    groupNests();
    if (!plain)
      putSideBySide(plan, storage);
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
  int64_t processors;
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

/// Whether a nest may run before one that stands before it: neither writes what the other reads or writes.
static bool mayPass(const Nest &nest, const Nest &earlier, const Storage &storage) {
  auto touches = [&](const Nest &other, unsigned buffer, bool onlyWrites) {
    linalg::LinalgOp op = other.op;
    for (auto [operand, access] : llvm::zip(op->getOpOperands(), other.accesses))
      if (access && access->buffer == buffer && (!onlyWrites || op.isDpsInit(&operand)))
        return true;
    return !onlyWrites && llvm::is_contained(extractedBuffers(op, storage), buffer);
  };
  for (auto [one, other] : {std::pair(&nest, &earlier), std::pair(&earlier, &nest)}) {
    linalg::LinalgOp op = one->op;
    for (OpOperand &init : op.getDpsInitsMutable())
      if (touches(*other, one->accesses[init.getOperandNumber()]->buffer, /*onlyWrites=*/false))
        return false;
  }
  return true;
}

/// Nests join a launch past others that have to wait for the next one, where these do not mind.
void LaunchPlanner::groupNests() {
  SmallVector<const Nest *> left(llvm::make_pointer_range(nests)), waiting;
  while (!left.empty()) {
    StepGroup group(storage, plan.buffers, processors, plain);
    waiting.clear();
    for (const Nest *nest : left) {
      bool mayJoin =
          waiting.empty() ||
          (!plain && llvm::all_of(waiting, [&](const Nest *other) { return mayPass(*nest, *other, storage); }));
      if (!mayJoin || !group.add(*nest, /*keepsRegisters=*/!waiting.empty()))
        waiting.push_back(nest);
    }
    assert(!group.isEmpty() && "every nest can have a launch of its own");
    finishLaunch(group);
    std::swap(left, waiting);
  }
}

void LaunchPlanner::finishLaunch(const StepGroup &group) {
  GpuLaunch launch = group.finish();
  if (!plain && !launch.unrolled)
    repeatCheapSteps(launch, plan.buffers);
  bool joins = llvm::any_of(launch.steps, [](const GpuStep &step) { return step.kind == GpuStep::Join; });
  if (launch.splits > 1 && joins)
    return splitLaunch(std::move(launch), group.getInner());
  plan.launches.push_back(std::move(launch));
}

/// One launch that leaves partial results of each split in memory, and one that joins them and goes on.
void LaunchPlanner::splitLaunch(GpuLaunch launch, const SmallVector<bool> &isInner) {
  GpuLaunch second;
  second.processors = launch.processors;
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

/// Whether a step of the phase computes the buffer again.
static bool isRepeated(const GpuLaunch &launch, unsigned buffer, unsigned phase) {
  return llvm::any_of(launch.steps, [&](const GpuStep &step) {
    return step.isRepeated && step.phase == phase && writeAccess(step, buffer);
  });
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
                               !isRepeated(launch, buffer, later.phase) &&
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
        if (const auto &access = step.accesses[operand.getOperandNumber()]; access && step.readsMemory(operand))
          isLiveBefore[access->buffer] = true;
      if (!step.joinsPartials)
        for (unsigned buffer : extractedBuffers(op, storage))
          isLiveBefore[buffer] = true;
    }
    isLive = std::move(isLiveBefore);
  }
}

/// Temporaries that no launch needs at the same time may lie in the same place.
void LaunchPlanner::placeTemporaries() {
  struct Temporary {
    unsigned buffer;
    /// Launches in whose order it is first and last needed.
    unsigned first, last;
    uint64_t bytes;
  };
  plan.scratchOffsets.assign(plan.buffers.size(), std::nullopt);
  SmallVector<bool> isStored(plan.buffers.size(), false);
  SmallVector<std::optional<Temporary>> needed(plan.buffers.size());
  unsigned time = 0;
  auto note = [&](unsigned buffer) {
    const Buffer &of = plan.buffers[buffer];
    auto bytes = llvm::alignTo<64>(static_cast<uint64_t>(of.size * elementBytes(of.element)));
    if (!needed[buffer])
      needed[buffer] = {buffer, time, time, bytes};
    needed[buffer]->last = time;
  };
  for (const GpuLaunch &launch : plan.launches) {
    time += launch.isBeside ? 0 : 1;
    for (const GpuStep &step : launch.steps) {
      linalg::LinalgOp op = step.op;
      for (auto [init, stored] : llvm::zip(op.getDpsInitsMutable(), step.stored))
        if (stored)
          isStored[step.accesses[init.getOperandNumber()]->buffer] = true;
      for (const Access &partial : step.partials)
        isStored[partial.buffer] = true;
      for (const std::optional<Access> &access : step.accesses)
        if (access)
          note(access->buffer);
      for (const Access &partial : step.partials)
        note(partial.buffer);
      for (unsigned buffer : extractedBuffers(op, storage))
        note(buffer);
    }
  }
  // First fit, the largest first.
  SmallVector<Temporary> temporaries, placed;
  for (auto [index, buffer] : llvm::enumerate(plan.buffers))
    if (buffer.kind == Buffer::Temporary && isStored[index] && buffer.size > 0)
      temporaries.push_back(*needed[index]);
  llvm::stable_sort(temporaries, [](const Temporary &a, const Temporary &b) { return a.bytes > b.bytes; });
  for (const Temporary &temporary : temporaries) {
    uint64_t offset = 0;
    // By their offsets.
    for (const Temporary &other : placed) {
      uint64_t begin = *plan.scratchOffsets[other.buffer];
      bool isTogether = temporary.first <= other.last && other.first <= temporary.last;
      if (isTogether && offset + temporary.bytes > begin)
        offset = std::max(offset, begin + other.bytes);
    }
    plan.scratchOffsets[temporary.buffer] = offset;
    plan.scratchBytes = std::max(plan.scratchBytes, offset + temporary.bytes);
    auto behind = llvm::upper_bound(placed, offset, [&](uint64_t value, const Temporary &other) {
      return value < *plan.scratchOffsets[other.buffer];
    });
    placed.insert(behind, temporary);
  }
}

GpuKernelPlan planLaunches(Block &block, const Storage &storage, int64_t processors, bool plain) {
  return LaunchPlanner(block, storage, processors, plain).run();
}

} // namespace cleave
