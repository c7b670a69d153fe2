// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the blocks and threads of launches before these are written out, whoever decided them.

#include "passes/codegen/GpuLaunchAttributes.h"

#include "passes/codegen/GpuLimits.h"
#include "passes/codegen/GpuSteps.h"

using namespace mlir;

namespace cleave {

namespace {

/// Checks one launch.
class MappingOfLaunch {
public:
  MappingOfLaunch(plan::NativeKernelOp kernel, const GpuKernelPlan &plan, unsigned number)
      : kernel(kernel), plan(plan), number(number), launch(plan.launches[number]),
        before(number > 0 ? &plan.launches[number - 1] : nullptr) {}

  LogicalResult verify() {
    return success(succeeded(verifyNumbers()) && succeeded(verifyWidth()) && succeeded(verifyRagged()) &&
                   succeeded(verifyLanes()) && succeeded(verifySplits()) && succeeded(verifyCombines()) &&
                   succeeded(verifyLoop()) && succeeded(verifySquares()) && succeeded(verifyStaged()) &&
                   succeeded(verifyBlocks()));
  }

private:
  LogicalResult verifyNumbers();
  LogicalResult verifyWidth();
  LogicalResult verifyRagged();
  LogicalResult verifyLanes();
  LogicalResult verifySplits();
  LogicalResult verifyCombines();
  LogicalResult verifyLoop();
  LogicalResult verifySquares();
  LogicalResult verifyStaged();
  LogicalResult verifyBlocks();
  InFlightDiagnostic error(const Twine &expectation) {
    return kernel.emitOpError("expects launch ") << number << " " << expectation;
  }

  plan::NativeKernelOp kernel;
  const GpuKernelPlan &plan;
  unsigned number;
  const GpuLaunch &launch;
  const GpuLaunch *before;
};

} // namespace

LogicalResult MappingOfLaunch::verifyNumbers() {
  if (launch.steps.empty())
    return error("to have steps, got none");
  for (const auto &levels : {launch.outer, launch.inner})
    for (const GpuLevel &level : levels)
      if (level.size < 1)
        return error("to have levels with iterations, got ") << level.size;
  for (int64_t count : {launch.groups, launch.lanes, launch.width, launch.splits})
    if (count < 1)
      return error("to have at least one group, lane, split and element a thread, got ") << count;
  if (launch.groups > mostThreads || launch.lanes > mostThreads || launch.threads > mostThreads)
    return error("to have at most ") << mostThreads << " threads a block, got " << launch.groups << " x "
                                     << launch.lanes;
  if (launch.inner.empty() && (launch.innerFast || launch.lanes > 1 || launch.splits > 1 || launch.unrolled))
    return error("to have inner iterations for lanes, splits and what is written out, got none");
  return success();
}

/// Several elements at once are whole, and one access to memory.
LogicalResult MappingOfLaunch::verifyWidth() {
  if (launch.width == 1)
    return success();
  const GpuLevel *fast = launch.fastLevel();
  if (!llvm::isPowerOf2_64(static_cast<uint64_t>(launch.width)) || !fast ||
      (!launch.ragged && fast->size % launch.width != 0))
    return error("to have a width that is a power of two and divides the ")
           << (fast ? fast->size : 1) << " iterations that neighbouring threads take, got " << launch.width;
  for (const GpuStep &step : launch.steps)
    for (const std::optional<Access> &access : step.accesses)
      if (access && fast->step(*access) == 1 &&
          launch.width * elementBytes(plan.buffers[access->buffer].element) > argumentAlignment)
        return error("to have a width of at most ") << argumentAlignment << " bytes, got " << launch.width
                                                    << " elements of " << plan.buffers[access->buffer].element;
  return success();
}

/// Rows that begin anywhere have a lane for each element before the first multiple of the width and behind the last.
LogicalResult MappingOfLaunch::verifyRagged() {
  if (!launch.ragged)
    return success();
  if (!launch.innerFast || launch.inner.size() != 1 || launch.inner.back().step(*launch.ragged) != 1 ||
      launch.unrolled || launch.combines || launch.width == 1)
    return error(
        "to go along one inner level, in a loop of several elements at once that lie side by side in the operand "
        "that it is aligned by");
  if (launch.lanes < 2 * launch.width || launch.innerSize < launch.width)
    return error("to have two lanes an element of its width and a row of as many elements, got ")
           << launch.lanes << " lanes, a width of " << launch.width << " and rows of " << launch.innerSize;
  return success();
}

/// Lanes that join their values exchange them in a warp, then by shared memory.
LogicalResult MappingOfLaunch::verifyLanes() {
  if (launch.lanes == 1 || !launch.hasKind(GpuStep::Join))
    return success();
  if (launch.innerFast) {
    bool isPart = launch.lanes <= warpThreads && llvm::isPowerOf2_64(static_cast<uint64_t>(launch.lanes)) &&
                  launch.threads % warpThreads == 0;
    bool areWarps = launch.lanes % warpThreads == 0 && launch.groups == 1;
    if (!isPart && !areWarps)
      return error("to have lanes that are a part of a warp, in whole warps, or whole warps of one group, got ")
             << launch.groups << " groups of " << launch.lanes;
    return success();
  }
  for (const GpuStep &step : launch.steps)
    for (Value result : linalg::LinalgOp(step.op)->getResults()) {
      Type element = cast<RankedTensorType>(result.getType()).getElementType();
      int64_t bytes = sharedBytesOf(element, launch.threads * launch.width);
      if (step.kind == GpuStep::Join && bytes > mostSharedBytes)
        return error("to join in at most ") << mostSharedBytes << " bytes of shared memory, got " << bytes;
    }
  return success();
}

/// Each split has iterations, and no block needs what another one overwrites.
LogicalResult MappingOfLaunch::verifySplits() {
  if (launch.splits == 1)
    return success();
  if (launch.combines)
    return error("to combine splits without splits of its own, got ") << launch.splits;
  int64_t units = launch.innerUnits(), used = llvm::divideCeil(units, launch.unitsPerSplit());
  if (used != launch.splits)
    return error("to have iterations for each of ")
           << launch.splits << " splits, got " << units << " for parts of " << launch.unitsPerSplit();
  if (launch.hasKind(GpuStep::Join))
    return success();
  // Buffers that are read from memory, and those that the launch has written before.
  llvm::SmallDenseSet<unsigned> read, written;
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    for (OpOperand &operand : op->getOpOperands())
      if (const auto &access = step.accesses[operand.getOperandNumber()];
          access && step.readsMemory(operand) && !written.contains(access->buffer))
        read.insert(access->buffer);
    for (auto [init, isStored] : llvm::zip(op.getDpsInitsMutable(), step.stored)) {
      unsigned buffer = step.accesses[init.getOperandNumber()]->buffer;
      written.insert(buffer);
      if (step.kind == GpuStep::Once && isStored && read.contains(buffer))
        return error("to have one split, as it overwrites values of groups that all blocks read, got ")
               << launch.splits;
    }
  }
  return success();
}

LogicalResult MappingOfLaunch::verifyCombines() {
  if (!launch.combines)
    return success();
  if (!before || before->splits == 1 || !before->hasKind(GpuStep::Join))
    return error("to combine what splits of the one before have joined, got none");
  if (launch.inner.size() != 1 || launch.innerSize != before->splits)
    return error("to have one inner level of ") << before->splits << " splits that it combines, got "
                                                << launch.innerSize << " iterations in " << launch.inner.size();
  return success();
}

LogicalResult MappingOfLaunch::verifyLoop() {
  if (launch.unrolled && launch.rounds() > mostWrittenOut / launch.width)
    return error("to have at most ") << mostWrittenOut << " iterations of a thread written out, got " << launch.rounds()
                                     << " of " << launch.width << " elements";
  if (launch.ahead.empty())
    return success();
  if (launch.inner.empty() || launch.unrolled || launch.ahead.size() != launch.lastPhase() + 1)
    return error("to say for each of its ")
           << launch.lastPhase() + 1 << " phases what a loop has under way, got " << launch.ahead.size() << " numbers";
  for (int64_t units : launch.ahead)
    if (units < 1)
      return error("to have at least one iteration under way, got ") << units;
    else if (units > mostWrittenOut / launch.width)
      return error("to have at most ") << mostWrittenOut << " iterations under way, got " << units << " of "
                                       << launch.width << " elements";
  return success();
}

/// A block has whole squares, each of whose sides its threads divide.
LogicalResult MappingOfLaunch::verifySquares() {
  if (!launch.squares)
    return success();
  const GpuSquares &squares = *launch.squares;
  if (launch.outer.size() < 2 || squares.across >= launch.outer.size() - 1 || !launch.inner.empty() || launch.width > 1)
    return error("to have squares of single elements, of an outer level and the last one, and no inner levels, got "
                 "level ")
           << squares.across;
  if (squares.side < 2 || squares.padding < 0 || launch.threads % squares.side != 0 ||
      (squares.side * squares.side) % launch.threads != 0)
    return error("to have threads that are whole rows of a square and divide it, got ")
           << launch.threads << " for squares of " << squares.side;
  return success();
}

/// What squares bring through shared memory has room there, and is not written meanwhile.
LogicalResult MappingOfLaunch::verifyStaged() {
  SmallVector<Access> staged;
  int64_t bytes = 0;
  for (const GpuStep &step : launch.steps)
    for (unsigned operand : step.staged) {
      const Access &access = *step.accesses[operand];
      linalg::LinalgOp op = step.op;
      if (llvm::any_of(launch.steps, [&](const GpuStep &other) { return writeAccess(other, access.buffer); }))
        return op.emitOpError("expects staged operands that its launch does not write, got operand ") << operand;
      if (llvm::is_contained(staged, access))
        continue;
      staged.push_back(access);
      bytes += sharedBytesOf(plan.buffers[access.buffer].element, launch.squares->places());
    }
  if (bytes > mostSharedBytes)
    return error("to have squares in at most ") << mostSharedBytes << " bytes of shared memory, got " << bytes;
  return success();
}

/// Every group is in a block, with each of its splits.
LogicalResult MappingOfLaunch::verifyBlocks() {
  if (launch.blocks != launch.blocksNeeded())
    return error("to have ") << launch.blocksNeeded() << " blocks for all groups, got " << launch.blocks;
  if (launch.blocks > mostBlocks)
    return error("to have at most ") << mostBlocks << " blocks, got " << launch.blocks;
  if (launch.isBeside && (!before || before->threads != launch.threads))
    return error("to be beside one before it of as many threads, got ")
           << launch.threads << " beside " << (before ? before->threads : 0);
  return success();
}

LogicalResult verifyMapping(plan::NativeKernelOp kernel, const GpuKernelPlan &plan, unsigned number) {
  return MappingOfLaunch(kernel, plan, number).verify();
}

} // namespace cleave
