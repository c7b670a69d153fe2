// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks loops before they are written out, whoever decided them.

#include "passes/codegen/NativeDimensions.h"
#include "passes/codegen/NestAttributes.h"
#include "passes/codegen/NestBody.h"

using namespace mlir;

namespace cleave {

using plan::LoopRange;

static InFlightDiagnostic errorAt(const Nest &nest, StringRef expectation) {
  linalg::LinalgOp op = nest.op;
  return op.emitOpError(expectation);
}

//===-- one nest ----------------------------------------------------------------------------------------------===//

namespace {

/// Checks the loops of one operation by themselves.
class LoopsOfNest {
public:
  explicit LoopsOfNest(const Nest &nest, const NestPlan &plan) : nest(nest), plan(plan), op(nest.op) {}

  LogicalResult verify() {
    if (failed(verifyTile()) || failed(verifyIterations()))
      return failure();
    for (const Level &level : llvm::concat<const Level>(nest.outer, nest.inner))
      if (failed(verifyLevel(level)))
        return failure();
    return success(succeeded(verifySquares()) && succeeded(verifyOrder()));
  }

private:
  LogicalResult verifyIterations();
  LogicalResult verifyLevel(const Level &level);
  LogicalResult verifySquares();
  LogicalResult verifyOrder();
  LogicalResult verifyTile();

  const Nest &nest;
  const NestPlan &plan;
  linalg::LinalgOp op;
};

} // namespace

/// Every loop of several iterations runs once. The sides of squares run over what levels of squares divide.
LogicalResult LoopsOfNest::verifyIterations() {
  SmallVector<unsigned> times(nest.sizes.size(), 0);
  for (const Level &level : llvm::concat<const Level>(nest.outer, nest.inner))
    if (level.range != LoopRange::InSquare)
      for (unsigned loop : level.loops)
        ++times[loop];
  if (nest.tile) {
    ++times[nest.tile->lanes];
    for (unsigned loop : nest.tile->copies)
      ++times[loop];
  }
  for (auto [loop, count] : llvm::enumerate(times))
    if (count > 1 || (count == 0 && nest.sizes[loop] > 1))
      return op.emitOpError("expects loop ")
             << loop << " of " << nest.sizes[loop] << " iterations in one level, got it in " << count;
  return success();
}

/// Loops that run as one lie in memory like one.
LogicalResult LoopsOfNest::verifyLevel(const Level &level) {
  for (auto [outer, inner] : llvm::zip(ArrayRef(level.loops).drop_back(), ArrayRef(level.loops).drop_front())) {
    bool isOne = nest.reduction[outer] == nest.reduction[inner] && !nest.indexed[outer] && !nest.indexed[inner] &&
                 llvm::all_of(nest.accesses, [&, outer = outer, inner = inner](const std::optional<Access> &access) {
                   return !access || access->coefficients[outer] == access->coefficients[inner] * nest.sizes[inner];
                 });
    if (!isOne)
      return op.emitOpError("expects a level of loops that go through memory as one, got loops ")
             << outer << " and " << inner;
  }
  return success();
}

/// Each side of a square lies inside of the level that goes from square to square, and each such level has one.
LogicalResult LoopsOfNest::verifySquares() {
  SmallVector<ArrayRef<unsigned>> open;
  if (plan.squaredCommon && *plan.squaredCommon < nest.outer.size())
    open.push_back(nest.outer[*plan.squaredCommon].loops);
  for (const Level &level : nest.outer)
    if (level.range != LoopRange::Whole)
      return op.emitOpError("expects outer levels that are whole, got one that is ") << stringifyEnum(level.range);
  for (const Level &level : nest.inner) {
    if (level.range == LoopRange::Squares)
      open.push_back(level.loops);
    if (level.range != LoopRange::InSquare)
      continue;
    auto around = llvm::find(open, ArrayRef<unsigned>(level.loops));
    if (around == open.end())
      return op.emitOpError("expects a level in squares inside of squares of the same loops, got loop ")
             << level.loops.front();
    open.erase(around);
  }
  if (!open.empty())
    return op.emitOpError("expects a level in squares for each level of squares, got none of loop ")
           << open.front().front();
  return success();
}

/// A reduction that is more than a join of what came so far and an element, as a search for the first largest one, goes
/// through the elements in order.
LogicalResult LoopsOfNest::verifyOrder() {
  if (llvm::all_of(llvm::seq(op->getNumResults()), [&](unsigned result) { return joinIn(op, result) != nullptr; }))
    return success();
  int64_t last = -1;
  for (const Level &level : nest.inner)
    for (unsigned loop : level.loops) {
      if (!nest.reduction[loop] || level.range == LoopRange::Squares)
        continue;
      bool isSplit = llvm::any_of(nest.splits, [&](const LoopSplit &split) { return split.loop == loop; });
      if (loop < last || isSplit)
        return op.emitOpError("expects the loops of a reduction that is no sum, product, minimum or maximum in order, "
                              "got loop ")
               << loop << (isSplit ? " in parts" : " too late");
      last = loop;
    }
  return success();
}

/// Tiles hold sums of products, vectors lie along the lanes, and each copy has a place of its own in the result.
LogicalResult LoopsOfNest::verifyTile() {
  if (!nest.tile)
    return success();
  auto isInMemory = [](const std::optional<Access> &access) { return access.has_value(); };
  if (!isSumOfProducts(op) || !llvm::all_of(nest.accesses, isInMemory))
    return op.emitOpError("expects a tile of sums of products alone");
  const RegisterTile &tile = *nest.tile;
  if (tile.vectors > 1)
    return op.emitOpError("expects input 0 or 1 of a tile in vectors, got ") << tile.vectors;
  auto step = [&](unsigned operand, unsigned loop) { return nest.accesses[operand]->coefficients[loop]; };
  int64_t single = step(1 - tile.vectors, tile.lanes), result = step(2, tile.lanes);
  bool areLanes = step(tile.vectors, tile.lanes) == 1 &&
                  (nest.reduction[tile.lanes] ? single == 1 && result == 0 : single == 0 && result == 1);
  if (!areLanes)
    return op.emitOpError("expects lanes along which input ")
           << tile.vectors << " and the result, or both inputs of a sum, lie side by side, got loop " << tile.lanes;
  for (unsigned loop : tile.copies)
    if (nest.reduction[loop] || step(2, loop) == 0)
      return op.emitOpError("expects copies along which the result moves, got loop ") << loop;
  return success();
}

//===-- all nests ---------------------------------------------------------------------------------------------===//

namespace {

/// Checks what the operations of a kernel share.
class LoopsOfKernel {
public:
  LoopsOfKernel(Block &block, const NestPlan &plan, const Storage &storage)
      : block(block), plan(plan), storage(storage), dimensions(block) {}

  LogicalResult verify() {
    if (plan.nests.empty())
      return success();
    return success(succeeded(verifyNumbers()) && succeeded(verifyOuter()) && succeeded(verifyBlocks()) &&
                   succeeded(verifyBand()) && succeeded(verifyDivided()) && succeeded(verifyStack()));
  }

private:
  LogicalResult verifyNumbers();
  LogicalResult verifyOuter();
  LogicalResult verifyBlocks();
  LogicalResult verifyBand();
  LogicalResult verifyDivided();
  LogicalResult verifyStack();
  LogicalResult verifyShared(ArrayRef<const Level *> levels, const SharedDimensions &shared);
  bool mayHold(Value result, unsigned dim, int64_t extent) const;

  Block &block;
  const NestPlan &plan;
  const Storage &storage;
  SharedDimensions dimensions;
  /// That over blocks, of the operations in blocks.
  std::optional<SharedDimensions> inBlocks;
};

} // namespace

/// The common dimension of which a nest has that loop.
static std::optional<unsigned> dimensionWith(const SharedDimensions &shared, unsigned nest, unsigned loop) {
  for (auto [index, dimension] : llvm::enumerate(shared.getCommon()))
    if (dimension.loops[nest] == loop)
      return static_cast<unsigned>(index);
  return std::nullopt;
}

LogicalResult LoopsOfKernel::verifyNumbers() {
  const Nest &first = plan.nests.front();
  if (plan.squaredCommon && (*plan.squaredCommon >= plan.common.size() || plan.square < 1))
    return errorAt(first, "expects squares along one of ")
           << plan.common.size() << " common loops, got loop " << *plan.squaredCommon << " and size " << plan.square;
  if (plan.nestsInBlocks > plan.nests.size())
    return errorAt(first, "expects blocks around some of ")
           << plan.nests.size() << " operations, got " << plan.nestsInBlocks;
  if (plan.hasDivided && (!plan.common.empty() || plan.nestsInBlocks > 0))
    return errorAt(first, "expects either loops around all operations or a divided one inside, got both");
  if (plan.chunk < 0 || (plan.chunk > 0 && !plan.hasDivided))
    return errorAt(first, "expects chunks of a divided loop, got ") << plan.chunk;
  for (auto [index, nest] : llvm::enumerate(plan.nests)) {
    size_t expected = plan.common.size() + (index < plan.nestsInBlocks ? 1 : 0);
    if (nest.outer.size() != expected)
      return errorAt(nest, "expects ") << expected << " outer levels as its kernel has, got " << nest.outer.size();
    for (auto [number, size] : llvm::enumerate(plan.common)) {
      int64_t own = nest.outer[number].size;
      if ((plan.squaredCommon == number ? llvm::divideCeilSigned(own, plan.square) : own) != size)
        return errorAt(nest, "expects outer level ")
               << number << " of " << size << " iterations as its kernel has, got " << own;
    }
    if (index < plan.nestsInBlocks && nest.outer.back().size != plan.blocks)
      return errorAt(nest, "expects ") << plan.blocks << " blocks as its kernel has, got " << nest.outer.back().size;
  }
  return success();
}

/// The levels, one a nest from the first, run over the same dimensions of what the operations hand on.
LogicalResult LoopsOfKernel::verifyShared(ArrayRef<const Level *> levels, const SharedDimensions &shared) {
  for (auto [index, level] : llvm::enumerate(levels)) {
    const Nest &nest = plan.nests[index];
    bool isSame = level->loops.size() == levels.front()->loops.size();
    for (size_t i = 0; isSame && i < level->loops.size(); ++i) {
      unsigned loop = level->loops[i], firsts = levels.front()->loops[i];
      auto dimension = dimensionWith(shared, index, loop);
      isSame = dimension && dimension == dimensionWith(shared, 0, firsts) &&
               nest.sizes[loop] == plan.nests.front().sizes[firsts];
    }
    if (!isSame)
      return errorAt(nest, "expects a loop that all operations share, in the same place of each, got loop ")
             << level->loops.front();
  }
  return success();
}

LogicalResult LoopsOfKernel::verifyOuter() {
  for (unsigned number : llvm::seq(plan.common.size()))
    if (failed(verifyShared(llvm::map_to_vector(plan.nests, [&](const Nest &nest) { return &nest.outer[number]; }),
                            dimensions)))
      return failure();
  return success();
}

LogicalResult LoopsOfKernel::verifyBlocks() {
  if (plan.nestsInBlocks == 0)
    return success();
  inBlocks.emplace(block, plan.nestsInBlocks);
  auto some = ArrayRef(plan.nests).take_front(plan.nestsInBlocks);
  return verifyShared(llvm::map_to_vector(some, [](const Nest &nest) { return &nest.outer.back(); }), *inBlocks);
}

/// The rows of a band are those of a loop around all operations, and what blocks give begins with a fill.
LogicalResult LoopsOfKernel::verifyBand() {
  if (!plan.band)
    return success();
  const Nest &first = plan.nests.front();
  if (plan.nestsInBlocks == 0 || plan.band->level >= plan.common.size() || plan.band->columns < 1)
    return errorAt(first, "expects a band of one of ")
           << plan.common.size() << " common loops in a kernel with blocks, got loop " << plan.band->level;
  for (const Nest &nest : plan.nests) {
    const Level &level = nest.outer[plan.band->level];
    auto split = llvm::find_if(nest.splits, [&](const LoopSplit &each) { return each.loop == level.loops.front(); });
    int64_t unit = split == nest.splits.end() ? 1 : split->unit;
    if (level.loops.size() != 1 || unit != plan.band->unit)
      return errorAt(nest, "expects rows of a band in one loop, ") << unit << " an iteration, got " << plan.band->unit;
  }
  if (!beginsWithFills(plan))
    return errorAt(first, "expects what blocks of a band give to begin with a fill");
  return success();
}

LogicalResult LoopsOfKernel::verifyDivided() {
  SmallVector<const Level *> divided;
  for (const Nest &nest : plan.nests) {
    auto isDivided = [](const Level &level) { return level.range == LoopRange::Divided; };
    int64_t count = llvm::count_if(nest.inner, isDivided);
    if (count != (plan.hasDivided ? 1 : 0))
      return errorAt(nest, "expects ") << (plan.hasDivided ? 1 : 0) << " divided levels, got " << count;
    if (!plan.hasDivided)
      continue;
    divided.push_back(&*llvm::find_if(nest.inner, isDivided));
    if (divided.back()->size != plan.parallelExtent)
      return errorAt(nest, "expects a divided level of ")
             << plan.parallelExtent << " iterations as its kernel has, got " << divided.back()->size;
  }
  return verifyShared(divided, dimensions);
}

/// Whether a temporary needs no more than that of a dimension: nothing where the dimension is a loop around all, or
/// around the blocks of all that read it, and a unit where a part of that loop runs inside.
bool LoopsOfKernel::mayHold(Value result, unsigned dim, int64_t extent) const {
  if (extent == cast<RankedTensorType>(result.getType()).getDimSize(dim))
    return true;
  const Nest &first = plan.nests.front();
  for (const Level &level : ArrayRef(first.outer).take_front(plan.common.size()))
    for (unsigned loop : level.loops) {
      if (dimensions.dimensionOf(result, *dimensionWith(dimensions, 0, loop)) != dim)
        continue;
      auto split = llvm::find_if(first.splits, [&](const LoopSplit &each) { return each.loop == loop; });
      return extent == (split == first.splits.end() ? 0 : split->unit);
    }
  return extent == 0 && inBlocks && isInBlocks(plan, storage.find(result)->buffer) &&
         inBlocks->dimensionOf(result, *dimensionWith(*inBlocks, 0, first.outer.back().loops.front())) == dim;
}

LogicalResult LoopsOfKernel::verifyStack() {
  for (const Nest &nest : plan.nests)
    for (OpResult result : linalg::LinalgOp(nest.op)->getResults())
      for (auto [dim, extent] : llvm::enumerate(storage.findBuffer(result)->extents))
        if (!mayHold(result, dim, extent))
          return errorAt(nest, "expects on the stack what an iteration of the common loops needs of dimension ")
                 << dim << " of result " << result.getResultNumber() << ", got " << extent << " elements";
  return success();
}

LogicalResult verifyNests(Block &block, const NestPlan &plan, const Storage &storage) {
  for (const Nest &nest : plan.nests)
    if (!nest.isEmpty() && failed(LoopsOfNest(nest, plan).verify()))
      return failure();
  return LoopsOfKernel(block, plan, storage).verify();
}

} // namespace cleave
