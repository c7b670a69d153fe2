// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides which thread computes what of a launch: neighbouring threads take neighbouring memory, short sums stay in a
// warpThreads, and where there are few groups many threads and blocks share each.

#include "passes/codegen/GpuLaunches.h"

#include "passes/codegen/GpuLimits.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

namespace {

/// Threads that keep a multiprocessor busy.
constexpr int64_t threadsPerProcessor = 512;
constexpr int64_t usualBlock = 256;
/// Bytes that a thread loads at once, at most.
constexpr int64_t vectorBytes = 16;
/// Inner iterations of a thread that may be written out, values of theirs that it may keep in registers from phase to
/// phase, and operations that may be written out.
constexpr int64_t writtenIterations = 32, keptValues = 96, writtenOperations = 1024;

} // namespace

bool isIndexed(ArrayRef<GpuStep> steps, unsigned dim) {
  return llvm::any_of(steps, [&](const GpuStep &step) {
    linalg::LinalgOp op = step.op;
    bool found = false;
    op.getBlock()->walk([&](linalg::IndexOp index) { found |= step.dims[index.getDim()] == std::optional(dim); });
    return found;
  });
}

template <typename Visit> static void forEachAccess(ArrayRef<GpuStep> steps, Visit visit) {
  for (const GpuStep &step : steps) {
    linalg::LinalgOp op = step.op;
    for (auto [operand, access] : llvm::zip(op->getOpOperands(), step.accesses))
      if (access && !(step.joinsPartials && !op.isDpsInit(&operand)))
        visit(step, *access, op.isDpsInit(&operand));
    for (const Access &access : step.partials)
      if (step.joinsPartials)
        visit(step, access, /*isResult=*/false);
  }
}

bool canJoin(ArrayRef<GpuStep> steps, const GpuLevel &outer, const GpuLevel &inner) {
  for (const GpuLevel *level : {&outer, &inner})
    for (unsigned dim : level->dims)
      if (isIndexed(steps, dim))
        return false;
  bool possible = true;
  forEachAccess(steps, [&](const GpuStep &, const Access &access, bool) {
    possible &= outer.step(access) == inner.step(access) * inner.size;
  });
  return possible;
}

static bool hasSequence(const GpuLaunch &launch) { return launch.hasKind(GpuStep::Sequence); }

//===-- levels ------------------------------------------------------------------------------------------------===//

static void joinLevels(ArrayRef<GpuStep> steps, SmallVectorImpl<GpuLevel> &levels) {
  auto joinOne = [&] {
    for (size_t i = 0; i < levels.size(); ++i)
      for (size_t j = 0; j < levels.size(); ++j)
        if (i != j && canJoin(steps, levels[i], levels[j])) {
          levels[i].size *= levels[j].size;
          levels[i].dims.append(levels[j].dims.begin(), levels[j].dims.end());
          levels.erase(levels.begin() + j);
          return true;
        }
    return false;
  };
  while (joinOne())
    ;
}

/// How badly a level suits neighbouring threads: those should read and write neighbouring elements.
static double fastCost(const GpuLaunch &launch, const GpuLevel &level) {
  double cost = level.size < 8 ? 20 : 0;
  bool hasInner = !launch.inner.empty();
  forEachAccess(launch.steps, [&](const GpuStep &step, const Access &access, bool isResult) {
    if (hasInner && !step.isInner())
      return;
    int64_t distance = std::abs(level.step(access));
    cost += (distance == 0 ? 0 : distance == 1 ? 1 : 8) * (isResult ? 2 : 1);
  });
  return cost;
}

/// Puts the level that suits neighbouring threads best last, and returns its cost.
static double putBestLast(const GpuLaunch &launch, SmallVectorImpl<GpuLevel> &levels) {
  size_t best = levels.size() - 1;
  for (size_t i = levels.size(); i-- > 0;)
    if (fastCost(launch, levels[i]) < fastCost(launch, levels[best]))
      best = i;
  std::rotate(levels.begin() + best, levels.begin() + best + 1, levels.end());
  return fastCost(launch, levels.back());
}

static void chooseLevels(GpuLaunch &launch, ArrayRef<bool> isInner, bool plain) {
  launch.outer.clear();
  launch.inner.clear();
  launch.outerSize = launch.innerSize = 1;
  for (unsigned dim = 0; dim < launch.sizes.size(); ++dim) {
    (isInner[dim] ? launch.inner : launch.outer).push_back({launch.sizes[dim], {dim}});
    (isInner[dim] ? launch.innerSize : launch.outerSize) *= launch.sizes[dim];
  }
  launch.innerFast = false;
  if (plain)
    return;
  joinLevels(launch.steps, launch.outer);
  // A sequence keeps its order.
  if (!hasSequence(launch))
    joinLevels(launch.steps, launch.inner);
  double outerCost = launch.outer.empty() ? 1e9 : putBestLast(launch, launch.outer);
  if (launch.inner.empty() || hasSequence(launch))
    return;
  double innerCost = putBestLast(launch, launch.inner);
  bool isShort = launch.innerSize <= 4 && launch.outerSize >= warpThreads;
  launch.innerFast = !isShort && innerCost <= outerCost;
}

//===-- widths ------------------------------------------------------------------------------------------------===//

/// The neighbouring elements that fit a thread's loads, where all accesses along the fast level let it take several;
/// else one.
static int64_t widestOf(const GpuLaunch &launch, ArrayRef<Buffer> buffers) {
  const GpuLevel *fast = launch.fastLevel();
  if (!fast || hasSequence(launch))
    return 1;
  int64_t bytes = 0;
  bool isPossible = true;
  forEachAccess(launch.steps, [&](const GpuStep &, const Access &access, bool) {
    int64_t step = fast->step(access);
    isPossible &= step == 0 || step == 1;
    if (step == 1)
      bytes = std::max(bytes, elementBytes(buffers[access.buffer].element));
  });
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    op.getBlock()->walk(
        [&](Operation *inner) { isPossible &= !isa<tensor::ExtractOp>(inner) && inner->getNumRegions() == 0; });
  }
  return isPossible && bytes > 0 ? vectorBytes / bytes : 1;
}

/// A thread takes several neighbouring elements at once where those divide the fast level.
static void chooseWidth(GpuLaunch &launch, ArrayRef<Buffer> buffers) {
  int64_t width = widestOf(launch, buffers);
  bool isWide = launch.innerFast || launch.innerSize > 1;
  while (width > 1 && (launch.fastLevel()->size % width != 0 ||
                       (!isWide && launch.outerSize / width < launch.processors * threadsPerProcessor) ||
                       (isWide && !launch.innerFast && launch.outerSize / width < warpThreads)))
    width /= 2;
  launch.width = width;
}

/// The access whose multiples of a width ragged rows are divided by: one that lies in memory.
static std::optional<Access> raggedAccess(const GpuLaunch &launch, ArrayRef<Buffer> buffers) {
  std::optional<Access> found;
  forEachAccess(launch.steps, [&](const GpuStep &step, const Access &access, bool) {
    Buffer::Kind kind = buffers[access.buffer].kind;
    if (!found && step.isInner() && launch.fastLevel()->step(access) == 1 &&
        (kind == Buffer::Input || kind == Buffer::Output))
      found = access;
  });
  return found;
}

//===-- threads -----------------------------------------------------------------------------------------------===//

static int64_t roundUp(int64_t value, int64_t unit) { return llvm::divideCeil(value, unit) * unit; }

static int64_t innerOperations(const GpuLaunch &launch) {
  int64_t count = 0;
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    if (step.isInner())
      op.getBlock()->walk([&](Operation *) { ++count; });
  }
  return count;
}

/// Tensors of inner iterations that several phases need: each takes a register an iteration.
static int64_t keptTensors(const GpuLaunch &launch) {
  llvm::MapVector<unsigned, unsigned> firstPhase;
  llvm::SmallDenseSet<unsigned> kept;
  for (const GpuStep &step : launch.steps)
    for (const std::optional<Access> &access : step.accesses) {
      bool moves = access && step.isInner() &&
                   llvm::any_of(launch.inner, [&](const GpuLevel &level) { return level.step(*access) != 0; });
      if (moves && firstPhase.insert({access->buffer, step.phase}).first->second != step.phase)
        kept.insert(access->buffer);
    }
  return std::max<int64_t>(1, static_cast<int64_t>(kept.size()));
}

/// Whether all inner iterations are in one loop.
static bool isOnePhase(const GpuLaunch &launch) {
  return llvm::none_of(launch.steps, [](const GpuStep &step) { return step.isInner() && step.phase > 0; });
}

/// A warpThreads or less for a group where each lane can keep its part in registers, else a block.
static void chooseLanesOfRows(GpuLaunch &launch) {
  int64_t units = launch.innerUnits();
  constexpr int64_t smallBlock = 128;
  if (units <= warpThreads) {
    launch.lanes = static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(units)));
    launch.groups = smallBlock / launch.lanes;
    return;
  }
  auto fits = [&](int64_t rounds) {
    int64_t iterations = rounds * launch.width;
    return iterations <= writtenIterations && iterations * keptTensors(launch) <= keptValues;
  };
  if (fits(llvm::divideCeil(units, warpThreads)) &&
      launch.outerSize >= launch.processors * threadsPerProcessor / warpThreads) {
    launch.lanes = warpThreads;
    launch.groups = smallBlock / warpThreads;
    return;
  }
  launch.groups = 1;
  // Nothing has to be kept for another phase: where a block is too little, several share a group.
  if (isOnePhase(launch)) {
    launch.lanes = std::min(usualBlock, roundUp(units, warpThreads));
    return;
  }
  for (int64_t block : {usualBlock, 2 * usualBlock, mostThreads}) {
    int64_t rounds = llvm::divideCeil(units, block);
    launch.lanes = roundUp(llvm::divideCeil(units, rounds), warpThreads);
    if (fits(2 * rounds))
      return;
  }
  // Where a row does not stay in registers, others are loaded while a block waits at the end of a phase.
  if (!fits(llvm::divideCeil(units, launch.lanes)) && launch.outerSize >= 2 * launch.processors)
    launch.lanes = 2 * usualBlock;
}

/// As many groups side by side as a warpThreads has threads, and several lanes where there are few groups.
static void chooseLanesOfColumns(GpuLaunch &launch) {
  int64_t units = launch.outerUnits(), longest = launch.innerSize;
  bool isParallel = units >= launch.processors * threadsPerProcessor || longest < 8 || hasSequence(launch);
  if (isParallel) {
    launch.lanes = 1;
    launch.groups = units >= launch.processors * usualBlock ? usualBlock : usualBlock / 2;
    return;
  }
  launch.groups =
      std::min<int64_t>(warpThreads, static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(units))));
  int64_t most = static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(longest)));
  launch.lanes = std::min(usualBlock / launch.groups, most);
}

/// Whether a value of a group that the launch overwrites is read from memory before: all blocks of a group would have
/// to wait for each other.
static bool overwritesWhatItReads(const GpuLaunch &launch) {
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    for (OpOperand &init : op.getDpsInitsMutable())
      if (!step.isInner() && op.payloadUsesValueFromOperand(&init))
        return true;
  }
  return false;
}

static void chooseSplits(GpuLaunch &launch) {
  launch.splits = 1;
  int64_t blocks = llvm::divideCeil(launch.outerUnits(), launch.groups), units = launch.innerUnits();
  if (launch.inner.empty() || hasSequence(launch) || !isOnePhase(launch) || launch.combines)
    return;
  if (!launch.hasKind(GpuStep::Join)) {
    if (!overwritesWhatItReads(launch) && blocks < 8 * launch.processors)
      launch.splits = std::min<int64_t>(llvm::divideCeil(units, launch.lanes * 4), 8 * launch.processors / blocks);
    launch.splits = llvm::divideCeil(units, launch.unitsPerSplit());
    return;
  }
  constexpr int64_t worthwhile = 64 * 1024, unitsPerLane = 8;
  if (launch.outerSize * launch.innerSize < worthwhile || blocks >= 2 * launch.processors)
    return;
  launch.splits = std::max<int64_t>(1, std::min(4 * launch.processors / blocks, units / (launch.lanes * unitsPerLane)));
  // No split may be empty.
  launch.splits = llvm::divideCeil(units, launch.unitsPerSplit());
}

/// Long rows of a length that no width divides: all but their ends are taken several elements at once. Threads that
/// keep a row in registers have enough loads of single elements under way.
static void chooseRagged(GpuLaunch &launch, ArrayRef<Buffer> buffers) {
  constexpr int64_t worthwhile = 8;
  int64_t width = widestOf(launch, buffers);
  if (!launch.innerFast || launch.inner.size() != 1 || launch.unrolled || launch.width != 1 || width == 1 ||
      launch.combines || launch.innerSize < worthwhile * warpThreads * width)
    return;
  launch.ragged = raggedAccess(launch, buffers);
  if (!launch.ragged)
    return;
  launch.width = width;
  chooseLanesOfRows(launch);
  chooseSplits(launch);
  assert(launch.lanes >= 2 * width && "each element at the ends of a row has a thread");
}

/// Finds a level along which an operand lies that the fast level reads far apart.
static void chooseSquares(GpuLaunch &launch) {
  launch.squares.reset();
  if (!launch.inner.empty() || launch.outer.size() < 2 || launch.outer.back().size < warpThreads / 2)
    return;
  for (unsigned level = 0; level + 1 < launch.outer.size() && !launch.squares; ++level) {
    if (launch.outer[level].size < warpThreads / 2)
      continue;
    // An element behind each row, so that those of a column lie in different banks.
    launch.squares = {level, squareSize, /*padding=*/1};
    bool isWanted = false;
    forEachAccess(launch.steps, [&](const GpuStep &, const Access &access, bool isResult) {
      isWanted |= !isResult && isTurned(launch, access);
    });
    if (!isWanted)
      launch.squares.reset();
  }
  if (!launch.squares)
    return;
  launch.width = 1;
  launch.groups = launch.threads = usualBlock;
  launch.blocks = launch.blocksNeeded();
}

bool needsWideNumbers(const GpuLaunch &launch) {
  constexpr int64_t most = int64_t(1) << 31;
  if (launch.outerSize >= most || launch.innerSize >= most || launch.blocks * launch.threads >= most)
    return true;
  bool isLarge = false;
  forEachAccess(launch.steps, [&](const GpuStep &, const Access &access, bool) {
    int64_t reach = std::abs(access.offset);
    for (auto [size, coefficient] : llvm::zip(launch.sizes, access.coefficients))
      reach += (size - 1) * std::abs(coefficient);
    isLarge |= reach >= most;
  });
  return isLarge;
}

void chooseMapping(GpuLaunch &launch, ArrayRef<bool> isInner, ArrayRef<Buffer> buffers, bool plain) {
  chooseLevels(launch, isInner, plain);
  launch.width = launch.lanes = launch.splits = 1;
  launch.ragged.reset();
  launch.squares.reset();
  launch.groups = usualBlock / 2;
  if (!plain) {
    chooseWidth(launch, buffers);
    if (launch.inner.empty())
      launch.groups = launch.outerUnits() >= launch.processors * threadsPerProcessor ? usualBlock : usualBlock / 2;
    else if (launch.innerFast)
      chooseLanesOfRows(launch);
    else
      chooseLanesOfColumns(launch);
    chooseSplits(launch);
  }
  int64_t iterations = launch.rounds() * launch.width;
  launch.unrolled = !plain && !launch.inner.empty() && !hasSequence(launch) && iterations <= writtenIterations &&
                    iterations * keptTensors(launch) <= keptValues &&
                    iterations * innerOperations(launch) <= writtenOperations;
  if (!plain)
    chooseRagged(launch, buffers);
  launch.threads = launch.lanes * launch.groups;
  launch.blocks = launch.blocksNeeded();
  if (!plain)
    chooseSquares(launch);
  launch.isLarge = needsWideNumbers(launch);
}

} // namespace cleave
