// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of a kernel on a GPU goes through memory, and where it lies there.

#include "passes/codegen/GpuLaunches.h"
#include "passes/codegen/GpuSteps.h"

using namespace mlir;

namespace cleave {

/// Whether a step of the phase computes the buffer again.
static bool isRepeated(const GpuLaunch &launch, unsigned buffer, unsigned phase) {
  return llvm::any_of(launch.steps, [&](const GpuStep &step) {
    return step.isRepeated && step.phase == phase && writeAccess(step, buffer);
  });
}

bool isStoredElsewhere(const GpuLaunch &launch, const GpuStep &step) {
  return step.leavesPartials() ||
         (launch.splits > 1 && step.kind == GpuStep::Once &&
          llvm::any_of(launch.steps, [](const GpuStep &other) { return !other.partials.empty(); }));
}

/// A result goes to memory where it is one of the kernel, or read by other launches, or by a later loop that no longer
/// has it in registers.
void chooseStores(GpuKernelPlan &plan, const Storage &storage) {
  SmallVector<bool> isLive(plan.buffers.size(), false);
  for (auto [index, buffer] : llvm::enumerate(plan.buffers))
    isLive[index] = buffer.kind == Buffer::Output;
  for (GpuLaunch &launch : llvm::reverse(plan.launches)) {
    SmallVector<bool> isLiveBefore = isLive;
    for (size_t i = launch.steps.size(); i-- > 0;) {
      GpuStep &step = launch.steps[i];
      linalg::LinalgOp op = step.op;
      // The launch that goes on stores what belongs to groups.
      bool isElsewhere = isStoredElsewhere(launch, step);
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

void placeTemporaries(GpuKernelPlan &plan, const Storage &storage) {
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

bool GpuKernelPlan::isInMemory(unsigned buffer) const {
  const Buffer &of = buffers[buffer];
  if (of.kind == Buffer::Temporary)
    return scratchOffsets[buffer].has_value();
  return of.kind != Buffer::Constant || (!of.value.isSplat() && of.size > 0);
}

} // namespace cleave
