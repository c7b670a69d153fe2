// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides the loops of a kernel: what all nests share goes outside and is divided among cores, and inside each nest the
// loop that reads and writes memory in order goes innermost, for the vectorizer.

#include "passes/codegen/NativeNests.h"

#include "passes/codegen/NativeDimensions.h"
#include "passes/codegen/NativeLevels.h"

using namespace mlir;

namespace cleave {

static double work(const Nest &nest) {
  linalg::LinalgOp op = nest.op;
  double result = static_cast<double>(op.getBlock()->getOperations().size());
  for (int64_t size : nest.sizes)
    result *= static_cast<double>(size);
  return result;
}

//===-- common loops ------------------------------------------------------------------------------------------===//

namespace {

/// Rows that several tiled sums share.
constexpr int64_t mostRows = 64;
/// Indices of a divided range that all nests run over before they go on, so that what they hand on stays in the cache.
constexpr int64_t chunkSize = 512;
/// What a kernel in blocks may have on the stack: people limit that of threads to 512 KiB and 1 MiB.
constexpr int64_t mostStackBytes = 256 * 1024;

/// A loop that all nests share, as a level of each; `dimensions` are indices of SharedDimensions::getCommon.
struct CommonLevel {
  int64_t size = 1;
  SmallVector<unsigned, 2> dimensions;
  std::vector<Level> levels;
};

class Planner {
public:
  Planner(Block &block, Storage &storage, bool plain, const VectorRegisters &registers, dfg::BandAttr band)
      : block(block), storage(storage), plain(plain), registers(registers), band(band) {}

  NestPlan run() {
    plan.nests = findNests(block, storage);
    if (!plain && !plan.nests.empty() && llvm::none_of(plan.nests, [](const Nest &nest) { return nest.isEmpty(); })) {
      dimensions.emplace(block);
      tileSums();
      findCommonLevels();
      chooseOuterLevels();
      findBand();
      shrinkTemporaries();
    }
    for (Nest &nest : plan.nests)
      orderInnerLevels(nest);
    return std::move(plan);
  }

private:
  /// A nest that is to be tiled.
  struct TiledSum {
    unsigned nest;
    TileChoice choice;
  };

  unsigned heaviestNest() const;
  std::vector<TiledSum> findSums() const;
  bool isFixed(unsigned nest, unsigned loop) const;
  void tileSums();
  bool findBlocks(unsigned last);
  void splitRows();
  int64_t bytesAround(unsigned dimension, int64_t unit) const;
  unsigned splitLoop(unsigned nest, unsigned loop, int64_t unit, bool isCommon);
  unsigned splitEverywhere(unsigned nest, unsigned loop, int64_t unit);
  bool isTiled() const {
    return llvm::any_of(plan.nests, [](const Nest &nest) { return nest.tile.has_value(); });
  }

  void findCommonLevels();
  bool canJoinEverywhere(const CommonLevel &outer, const CommonLevel &inner) const;
  void chooseOuterLevels();
  void putOutside(unsigned innermost, std::optional<unsigned> transposed);
  std::optional<unsigned> findTransposed(ArrayRef<Level> candidates, unsigned innermost) const;
  void findBand();
  void shrinkTemporaries();
  std::optional<SmallVector<int64_t>> extentsOnStack(Value tensor) const;
  void orderInnerLevels(Nest &nest);

  Block &block;
  Storage &storage;
  bool plain;
  const VectorRegisters &registers;
  dfg::BandAttr band;
  NestPlan plan;
  /// The units of common dimensions that are split.
  DenseMap<unsigned, int64_t> units;
  /// With blocks: by nest, the inner part of the longest common loop.
  SmallVector<unsigned> rows;
  std::optional<SharedDimensions> dimensions;
  /// The dimensions that the nests in blocks share, and which of them are the blocks.
  std::optional<SharedDimensions> inBlocks;
  unsigned blocksDimension = 0;
  std::vector<CommonLevel> commonLevels, outerLevels;
  /// The common level that is divided inside the nests.
  std::optional<CommonLevel> divided;
};

} // namespace

unsigned Planner::heaviestNest() const {
  unsigned heaviest = 0;
  for (unsigned i = 1; i < plan.nests.size(); ++i)
    if (work(plan.nests[i]) > work(plan.nests[heaviest]))
      heaviest = i;
  return heaviest;
}

/// Whether a loop must not be split. With blocks: that over them, common ones, of which the rows are split off already,
/// and others along which no operand lies side by side, as rows that are far apart meet in the same sets of the cache.
bool Planner::isFixed(unsigned nest, unsigned loop) const {
  if (plan.nestsInBlocks == 0 || (!rows.empty() && rows[nest] == loop))
    return false;
  auto isOf = [&](const CommonDimension &dimension) { return dimension.loops[nest] == loop; };
  if (llvm::any_of(dimensions->getCommon(), isOf) ||
      (nest < plan.nestsInBlocks && isOf(inBlocks->getCommon()[blocksDimension])))
    return true;
  return llvm::none_of(plan.nests[nest].accesses,
                       [&](const std::optional<Access> &access) { return access && access->coefficients[loop] == 1; });
}

/// The heaviest nest, if it is a sum that has a tile, and others that take a quarter of its work or more.
std::vector<Planner::TiledSum> Planner::findSums() const {
  std::vector<TiledSum> sums;
  unsigned heaviest = heaviestNest();
  for (unsigned i = 0; i < plan.nests.size(); ++i) {
    if (work(plan.nests[i]) < work(plan.nests[heaviest]) / 4)
      continue;
    if (auto choice = chooseTile(plan.nests[i], registers, [&](unsigned loop) { return isFixed(i, loop); }))
      sums.push_back({i, *choice});
    else if (i == heaviest)
      return {};
  }
  return sums;
}

/// Splits the loops that tiles consist of, of the heaviest sum, or of several that have blocks in common. What is left
/// of common loops runs outside, so that all nests work on the tile one after the other.
void Planner::tileSums() {
  std::vector<TiledSum> sums = findSums();
  if (sums.size() > 1 && findBlocks(sums.back().nest)) {
    splitRows();
    sums = findSums();
  } else {
    llvm::erase_if(sums, [&](const TiledSum &sum) { return sum.nest != heaviestNest(); });
  }
  for (const auto &[nest, choice] : sums) {
    RegisterTile tile;
    tile.width = choice.width;
    tile.vectors = choice.vectors;
    for (const TileChoice::Copies &copies : choice.copies)
      tile.copies.push_back(splitEverywhere(nest, copies.loop, copies.count));
    tile.lanes = splitEverywhere(nest, choice.lanes, choice.width * choice.vectorsAlongLanes);
    if (choice.vectorsAlongLanes > 1) {
      tile.copies.push_back(tile.lanes);
      tile.lanes = splitLoop(nest, tile.lanes, choice.width, /*isCommon=*/false);
    }
    plan.nests[nest].tile = tile;
  }
}

/// Finds the longest row of nests, up to `last` at least, that have one more loop in common than all have, which then
/// runs over blocks; false where there is none.
bool Planner::findBlocks(unsigned last) {
  for (size_t count = plan.nests.size() - 1; count > last; --count) {
    SharedDimensions some(block, count);
    SmallVector<unsigned> more;
    for (auto [index, dimension] : llvm::enumerate(some.getCommon()))
      if (llvm::none_of(dimensions->getCommon(),
                        [&](const CommonDimension &all) { return all.loops[last] == dimension.loops[last]; }))
        more.push_back(static_cast<unsigned>(index));
    if (more.size() != 1)
      continue;
    blocksDimension = more.front();
    plan.blocks = some.getCommon()[blocksDimension].size;
    plan.nestsInBlocks = count;
    inBlocks.emplace(std::move(some));
    return true;
  }
  return false;
}

/// What temporaries take beside one index of the common loops, but for `unit` of those of one dimension.
int64_t Planner::bytesAround(unsigned dimension, int64_t unit) const {
  int64_t together = 1, total = 0;
  for (auto [index, common] : llvm::enumerate(dimensions->getCommon()))
    together *= index == dimension ? common.size / unit : common.size;
  DenseSet<unsigned> seen;
  for (const Nest &nest : plan.nests)
    for (Value result : nest.op->getResults()) {
      const View *view = storage.find(result);
      const Buffer &buffer = storage.getBuffers()[view->buffer];
      if (buffer.kind == Buffer::Temporary && seen.insert(view->buffer).second)
        total +=
            buffer.size / together / (isInBlocks(plan, view->buffer) ? plan.blocks : 1) * elementBytes(buffer.element);
    }
  return total;
}

/// Splits as many rows off the longest common loop as the stack has room for, so that what all tiles read serves many.
void Planner::splitRows() {
  ArrayRef<CommonDimension> common = dimensions->getCommon();
  auto isShorter = [](const CommonDimension &a, const CommonDimension &b) { return a.size < b.size; };
  auto longest = llvm::max_element(common, isShorter);
  if (longest == common.end())
    return;
  auto index = static_cast<unsigned>(longest - common.begin());
  int64_t unit = std::min(mostRows, longest->size);
  while (unit > 1 && (longest->size % unit != 0 || bytesAround(index, unit) > mostStackBytes))
    --unit;
  units[index] = unit;
  for (auto [nest, own] : llvm::enumerate(longest->loops))
    rows.push_back(splitLoop(static_cast<unsigned>(nest), own, unit, /*isCommon=*/true));
}

/// The new inner loop of `nest`, and of all others where the loop is a common one.
unsigned Planner::splitEverywhere(unsigned nest, unsigned loop, int64_t unit) {
  for (auto [index, dimension] : llvm::enumerate(dimensions->getCommon())) {
    if (dimension.loops[nest] != loop)
      continue;
    units[static_cast<unsigned>(index)] = unit;
    unsigned inner = 0;
    for (auto [other, own] : llvm::enumerate(dimension.loops)) {
      unsigned made = splitLoop(static_cast<unsigned>(other), own, unit, /*isCommon=*/true);
      inner = other == nest ? made : inner;
    }
    return inner;
  }
  return splitLoop(nest, loop, unit, /*isCommon=*/false);
}

unsigned Planner::splitLoop(unsigned index, unsigned loop, int64_t unit, bool isCommon) {
  Nest &nest = plan.nests[index];
  cleave::splitLoop(nest, storage, {loop, unit, isCommon});
  return nest.sizes.size() - 1;
}

void Planner::findCommonLevels() {
  for (auto [index, dimension] : llvm::enumerate(dimensions->getCommon())) {
    int64_t size = plan.nests.front().sizes[dimension.loops.front()];
    if (size == 1)
      continue;
    CommonLevel common{size, {static_cast<unsigned>(index)}, {}};
    for (unsigned loop : dimension.loops)
      common.levels.push_back({size, {loop}});
    commonLevels.push_back(std::move(common));
  }
  joinPairs(commonLevels, [&](CommonLevel &outer, const CommonLevel &inner) {
    if (!canJoinEverywhere(outer, inner))
      return false;
    outer.size *= inner.size;
    llvm::append_range(outer.dimensions, inner.dimensions);
    for (auto [outerLevel, innerLevel] : llvm::zip(outer.levels, inner.levels))
      join(outerLevel, innerLevel);
    return true;
  });
}

bool Planner::canJoinEverywhere(const CommonLevel &outer, const CommonLevel &inner) const {
  for (auto [nest, outerLevel, innerLevel] : llvm::zip(plan.nests, outer.levels, inner.levels))
    if (!canJoin(nest, outerLevel, innerLevel))
      return false;
  return true;
}

/// Leaves the level that suits the heaviest nest as the innermost one inside; all other common levels go outside. Where
/// those are too few to divide, the one inside is divided. Around a tile all go outside.
void Planner::chooseOuterLevels() {
  if (isTiled() || plan.nestsInBlocks > 0)
    return putOutside(commonLevels.size(), std::nullopt);
  if (commonLevels.empty())
    return;
  unsigned heaviest = heaviestNest();
  const Nest &nest = plan.nests[heaviest];
  SmallVector<Level, 6> own;
  for (unsigned loop = 0; loop < nest.sizes.size(); ++loop)
    if (nest.sizes[loop] > 1 && llvm::none_of(commonLevels, [&](const CommonLevel &common) {
          return llvm::is_contained(common.levels[heaviest].loops, loop);
        }))
      own.push_back({nest.sizes[loop], {loop}});
  joinLevels(nest, own);
  SmallVector<Level, 6> candidates;
  for (const CommonLevel &common : commonLevels)
    candidates.push_back(common.levels[heaviest]);
  candidates.append(own);
  unsigned innermost = bestInnermost(nest, candidates);

  int64_t outside = 1;
  for (auto [index, common] : llvm::enumerate(commonLevels))
    if (index != innermost)
      outside *= common.size;
  if (innermost < commonLevels.size() &&
      (commonLevels.size() == 1 || (outside < 16 && commonLevels[innermost].size >= 16 * outside))) {
    divided = commonLevels[innermost];
    plan.parallelExtent = divided->size;
    plan.hasDivided = true;
    plan.chunk = plan.nests.size() > 1 ? chunkSize : 0;
    return;
  }
  putOutside(innermost, findTransposed(candidates, innermost));
}

/// All common levels but `innermost`, that of `transposed` from square to square.
void Planner::putOutside(unsigned innermost, std::optional<unsigned> transposed) {
  for (auto [index, common] : llvm::enumerate(commonLevels)) {
    if (index == innermost)
      continue;
    if (index == transposed)
      plan.squaredCommon = outerLevels.size();
    outerLevels.push_back(common);
    plan.common.push_back(index == transposed ? llvm::divideCeil(common.size, plan.square) : common.size);
    plan.parallelExtent *= plan.common.back();
  }
  for (auto [index, each] : llvm::enumerate(plan.nests)) {
    for (const CommonLevel &common : outerLevels)
      each.outer.push_back(common.levels[index]);
    if (index < plan.nestsInBlocks)
      each.outer.push_back({plan.blocks, {inBlocks->getCommon()[blocksDimension].loops[index]}});
  }
}

/// The common level along which the only nest reads in order what it reads far apart along its innermost level.
std::optional<unsigned> Planner::findTransposed(ArrayRef<Level> candidates, unsigned innermost) const {
  if (plan.nests.size() != 1 || candidates[innermost].size < squareSize)
    return std::nullopt;
  for (const std::optional<Access> &access : plan.nests[0].accesses) {
    if (!access || std::abs(candidates[innermost].step(*access)) < 16)
      continue;
    for (unsigned i = 0; i < commonLevels.size(); ++i)
      if (i != innermost && candidates[i].step(*access) == 1 && candidates[i].size >= 16)
        return i;
  }
  return std::nullopt;
}

/// Finds the rows of the kernel's band among the loops around all nests.
void Planner::findBand() {
  if (!band || plan.nestsInBlocks == 0 || plan.blocks != band.getBlocks() || !beginsWithFills(plan))
    return;
  Value result = block.getTerminator()->getOperand(0);
  for (auto [level, common] : llvm::enumerate(outerLevels)) {
    unsigned dimension = common.dimensions.front();
    if (common.dimensions.size() > 1 || dimensions->dimensionOf(result, dimension) != band.getRows())
      continue;
    auto unit = units.find(dimension);
    plan.band = {static_cast<unsigned>(level), unit == units.end() ? 1 : unit->second, band.getColumns(),
                 dfg::ScoreBand{band.getLower(), band.getUpper()}};
  }
}

/// How much of each dimension of a temporary an iteration of the outer levels needs: nothing of those that run outside,
/// but for the units that run inside.
std::optional<SmallVector<int64_t>> Planner::extentsOnStack(Value tensor) const {
  SmallVector<int64_t> extents(cast<RankedTensorType>(tensor.getType()).getShape());
  for (const CommonLevel &common : outerLevels)
    for (unsigned dimension : common.dimensions) {
      auto dim = dimensions->dimensionOf(tensor, dimension);
      if (!dim)
        return std::nullopt;
      auto unit = units.find(dimension);
      extents[*dim] = unit == units.end() ? 0 : unit->second;
    }
  if (isInBlocks(plan, storage.find(tensor)->buffer))
    extents[*inBlocks->dimensionOf(tensor, blocksDimension)] = 0;
  return extents;
}

void Planner::shrinkTemporaries() {
  bool isLarge = plan.nestsInBlocks > 0;
  int64_t largest = isLarge ? mostStackBytes : 16 * 1024, all = isLarge ? mostStackBytes : 64 * 1024;
  int64_t total = 0;
  DenseMap<unsigned, std::optional<SmallVector<int64_t>>> wanted;
  for (Nest &nest : plan.nests)
    for (Value result : nest.op->getResults()) {
      const View *view = storage.find(result);
      const Buffer &buffer = storage.getBuffers()[view->buffer];
      if (buffer.kind != Buffer::Temporary || !buffer.plain || outerLevels.empty())
        continue;
      auto mine = extentsOnStack(result);
      auto [entry, isNew] = wanted.try_emplace(view->buffer, mine);
      if (!isNew && entry->second != mine)
        entry->second = std::nullopt;
    }
  for (unsigned index = 0; index < storage.getBuffers().size(); ++index) {
    auto entry = wanted.find(index);
    if (entry == wanted.end() || !entry->second)
      continue;
    int64_t bytes = elementBytes(storage.getBuffers()[index].element);
    for (int64_t extent : *entry->second)
      bytes *= std::max<int64_t>(extent, 1);
    if (bytes > largest || total + bytes > all)
      continue;
    total += bytes;
    storage.putOnStack(index, *entry->second);
  }
  for (Nest &nest : plan.nests)
    findAccesses(nest, storage);
}

void Planner::orderInnerLevels(Nest &nest) {
  size_t position = &nest - plan.nests.data();
  for (unsigned loop = 0; loop < nest.sizes.size(); ++loop) {
    bool isOutside =
        llvm::any_of(nest.outer, [&](const Level &level) { return llvm::is_contained(level.loops, loop); });
    bool isDivided = divided && llvm::is_contained(divided->levels[position].loops, loop);
    bool isInTile = nest.tile && (loop == nest.tile->lanes || llvm::is_contained(nest.tile->copies, loop));
    if (!isOutside && !isDivided && !isInTile && nest.sizes[loop] > 1)
      nest.inner.push_back({nest.sizes[loop], {loop}});
  }
  bool isTiledInBlocks = nest.tile && position < plan.nestsInBlocks;
  if (!plain && !isTiledInBlocks)
    joinLevels(nest, nest.inner);
  if (divided) {
    nest.inner.push_back(divided->levels[position]);
    nest.inner.back().range = plan::LoopRange::Divided;
    // In its place among the loops.
    llvm::stable_sort(nest.inner, [](const Level &a, const Level &b) { return a.loops.back() < b.loops.back(); });
  }
  if (nest.tile)
    return orderAroundTile(nest, /*rows=*/isTiledInBlocks);
  if (plain || nest.inner.empty() || nest.isEmpty())
    return;
  unsigned innermost = bestInnermost(nest, nest.inner);
  std::rotate(nest.inner.begin() + innermost, nest.inner.begin() + innermost + 1, nest.inner.end());
  if (!plan.squaredCommon)
    return;
  // Squares of the innermost level; in each the rows of the common loop's, and in each of those the columns.
  Level columns = nest.inner.pop_back_val(), rows = nest.outer[*plan.squaredCommon], squares = columns;
  squares.range = plan::LoopRange::Squares;
  rows.range = columns.range = plan::LoopRange::InSquare;
  nest.inner.append({squares, rows, columns});
}

bool beginsWithFills(const NestPlan &plan) {
  DenseSet<unsigned> filled;
  for (const Nest &nest : ArrayRef(plan.nests).take_front(plan.nestsInBlocks)) {
    linalg::LinalgOp op = nest.op;
    for (OpOperand &init : op.getDpsInitsMutable()) {
      const std::optional<Access> &access = nest.accesses[init.getOperandNumber()];
      if (!access || isInBlocks(plan, access->buffer))
        continue;
      if (isa<linalg::FillOp>(op.getOperation()))
        filled.insert(access->buffer);
      else if (!filled.contains(access->buffer))
        return false;
    }
  }
  return true;
}

NestPlan planNests(Block &block, Storage &storage, bool plain, const VectorRegisters &registers, dfg::BandAttr band) {
  return Planner(block, storage, plain, registers, band).run();
}

} // namespace cleave
