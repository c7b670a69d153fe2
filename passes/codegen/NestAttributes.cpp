// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between plans of nests and the attributes that show them.

#include "passes/codegen/NestAttributes.h"

using namespace mlir;

namespace cleave {

//===-- writing -----------------------------------------------------------------------------------------------===//

static SmallVector<plan::LoopLevelAttr> writeLevels(ArrayRef<Level> levels, MLIRContext *context) {
  return llvm::map_to_vector(
      levels, [&](const Level &level) { return plan::LoopLevelAttr::get(context, level.loops, level.range); });
}

static plan::RegisterTileAttr writeTile(const std::optional<RegisterTile> &tile, MLIRContext *context) {
  if (!tile)
    return {};
  SmallVector<int64_t> copies(tile->copies.begin(), tile->copies.end());
  return plan::RegisterTileAttr::get(context, tile->lanes,
                                     copies.empty() ? DenseI64ArrayAttr() : DenseI64ArrayAttr::get(context, copies),
                                     tile->vectors);
}

/// Empty where no result lies on the stack.
static SmallVector<DenseI64ArrayAttr> writeStack(linalg::LinalgOp op, const Storage &storage) {
  SmallVector<DenseI64ArrayAttr> stack;
  for (Value result : op->getResults())
    stack.push_back(DenseI64ArrayAttr::get(op.getContext(), storage.findBuffer(result)->extents));
  if (llvm::all_of(stack, [](DenseI64ArrayAttr extents) { return extents.empty(); }))
    stack.clear();
  return stack;
}

static plan::BandAttr writeBand(const std::optional<NestBand> &band, MLIRContext *context) {
  return band ? plan::BandAttr::get(context, band->level, band->unit, band->columns, band->band.lower, band->band.upper)
              : plan::BandAttr();
}

plan::CommonLoopsAttr writeNests(const NestPlan &plan, const Storage &storage, MLIRContext *context) {
  for (const Nest &nest : plan.nests) {
    auto splits = llvm::map_to_vector(
        nest.splits, [&](const LoopSplit &split) { return plan::LoopSplitAttr::get(context, split.loop, split.unit); });
    linalg::LinalgOp op = nest.op;
    op->setAttr(plan::nestAttrName,
                plan::NestAttr::get(context, splits, writeLevels(nest.outer, context), writeLevels(nest.inner, context),
                                    writeTile(nest.tile, context), writeStack(op, storage)));
  }
  return plan::CommonLoopsAttr::get(context, plan.common, plan.squaredCommon.value_or(0),
                                    plan.squaredCommon ? plan.square : 0, plan.nestsInBlocks > 0 ? plan.blocks : 0,
                                    plan.nestsInBlocks, plan.hasDivided ? plan.parallelExtent : 0, plan.chunk,
                                    writeBand(plan.band, context));
}

//===-- reading -----------------------------------------------------------------------------------------------===//

namespace {

class NestReader {
public:
  NestReader(Block &block, plan::CommonLoopsAttr common, Storage &storage)
      : block(block), common(common), storage(storage) {}

  FailureOr<NestPlan> run() {
    readCommon();
    plan.nests = findNests(block, storage);
    for (Nest &nest : plan.nests)
      if (!nest.op->getAttrOfType<plan::NestAttr>(plan::nestAttrName))
        return nest.op.emitOpError("expects its loops in '") << plan::nestAttrName << "', found none";
    if (failed(readStack()))
      return failure();
    for (Nest &nest : plan.nests)
      if (failed(readNest(nest, nest.op->getAttrOfType<plan::NestAttr>(plan::nestAttrName))))
        return failure();
    if (failed(verifyNests(block, plan, storage)))
      return failure();
    return std::move(plan);
  }

private:
  void readCommon() {
    plan.common.assign(common.getSizes().begin(), common.getSizes().end());
    for (int64_t size : plan.common)
      plan.parallelExtent *= size;
    if (common.getSquare() != 0) {
      plan.squaredCommon = common.getSquared();
      plan.square = common.getSquare();
    }
    if (common.getBlocks() != 0) {
      plan.blocks = common.getBlocks();
      plan.nestsInBlocks = common.getOperationsInBlocks();
    }
    if (plan::BandAttr band = common.getBand())
      plan.band = {band.getLevel(), band.getUnit(), band.getColumns(),
                   dfg::ScoreBand{band.getLower(), band.getUpper()}};
    plan.hasDivided = common.getDivided() != 0;
    if (plan.hasDivided)
      plan.parallelExtent = common.getDivided();
    plan.chunk = common.getChunk();
  }

  LogicalResult readStack();
  LogicalResult readNest(Nest &nest, plan::NestAttr attr);
  LogicalResult readLevels(Nest &nest, ArrayRef<plan::LoopLevelAttr> attrs, SmallVectorImpl<Level> &levels);
  LogicalResult readTile(Nest &nest, plan::RegisterTileAttr attr);

  Block &block;
  plan::CommonLoopsAttr common;
  Storage &storage;
  NestPlan plan;
};

} // namespace

/// Whether a temporary with that many elements along each dimension is a part of the tensor.
static bool arePartOf(ArrayRef<int64_t> extents, Value tensor) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(tensor.getType()).getShape();
  return extents.size() == shape.size() && llvm::all_of(llvm::zip(extents, shape), [](auto pair) {
           return std::get<0>(pair) >= 0 && std::get<0>(pair) <= std::get<1>(pair);
         });
}

LogicalResult NestReader::readStack() {
  DenseMap<unsigned, ArrayRef<int64_t>> known;
  for (Nest &nest : plan.nests) {
    auto stack = nest.op->getAttrOfType<plan::NestAttr>(plan::nestAttrName).getStack();
    if (!stack.empty() && stack.size() != nest.op->getNumResults())
      return nest.op.emitOpError("expects a list on the stack for each of ")
             << nest.op->getNumResults() << " results, got " << stack.size();
    for (OpResult result : nest.op->getResults()) {
      ArrayRef<int64_t> extents = stack.empty() ? ArrayRef<int64_t>() : stack[result.getResultNumber()].asArrayRef();
      unsigned buffer = storage.find(result)->buffer;
      auto [entry, isNew] = known.try_emplace(buffer, extents);
      if (entry->second != extents)
        return nest.op.emitOpError("expects result ")
               << result.getResultNumber() << " to lie as what is in the same memory, got [" << extents << "] and ["
               << entry->second << "] on the stack";
      if (extents.empty())
        continue;
      const Buffer &memory = storage.getBuffers()[buffer];
      if (memory.kind != Buffer::Temporary || !memory.plain || !arePartOf(extents, result))
        return nest.op.emitOpError("expects on the stack a part of a temporary that all see under one shape, got [")
               << extents << "] of result " << result.getResultNumber() << ", " << result.getType();
      if (isNew)
        storage.putOnStack(buffer, extents);
    }
  }
  return success();
}

LogicalResult NestReader::readNest(Nest &nest, plan::NestAttr attr) {
  findAccesses(nest, storage);
  for (plan::LoopSplitAttr split : attr.getSplits()) {
    unsigned loop = split.getLoop();
    if (loop >= nest.sizes.size())
      return nest.op.emitOpError("expects to split one of ") << nest.sizes.size() << " loops, got loop " << loop;
    if (llvm::any_of(nest.splits, [&](const LoopSplit &other) { return other.loop == loop; }))
      return nest.op.emitOpError("expects loop ") << loop << " to be split once; the inner one can be split again";
    if (split.getUnit() < 1 || nest.sizes[loop] % split.getUnit() != 0)
      return nest.op.emitOpError("expects a number that divides the ")
             << nest.sizes[loop] << " iterations of loop " << loop << ", got " << split.getUnit();
    bool isCommon = llvm::any_of(attr.getOuter().take_front(plan.common.size()),
                                 [&](plan::LoopLevelAttr level) { return llvm::is_contained(level.getLoops(), loop); });
    splitLoop(nest, storage, {loop, split.getUnit(), isCommon});
  }
  if (failed(readLevels(nest, attr.getOuter(), nest.outer)) || failed(readLevels(nest, attr.getInner(), nest.inner)))
    return failure();
  return attr.getTile() ? readTile(nest, attr.getTile()) : success();
}

LogicalResult NestReader::readLevels(Nest &nest, ArrayRef<plan::LoopLevelAttr> attrs, SmallVectorImpl<Level> &levels) {
  for (plan::LoopLevelAttr attr : attrs) {
    Level level;
    level.range = attr.getRange();
    for (unsigned loop : attr.getLoops()) {
      if (loop >= nest.sizes.size())
        return nest.op.emitOpError("expects levels of ") << nest.sizes.size() << " loops, got loop " << loop;
      level.loops.push_back(loop);
      level.size *= nest.sizes[loop];
    }
    levels.push_back(std::move(level));
  }
  return success();
}

LogicalResult NestReader::readTile(Nest &nest, plan::RegisterTileAttr attr) {
  RegisterTile tile;
  tile.lanes = attr.getLanes();
  tile.vectors = attr.getVectors();
  if (attr.getCopies())
    tile.copies.assign(attr.getCopies().asArrayRef().begin(), attr.getCopies().asArrayRef().end());
  auto isLoop = [&](unsigned loop) { return loop < nest.sizes.size(); };
  if (!isLoop(tile.lanes) || !llvm::all_of(tile.copies, isLoop))
    return nest.op.emitOpError("expects a tile of its ") << nest.sizes.size() << " loops, got " << attr;
  tile.width = nest.sizes[tile.lanes];
  nest.tile = tile;
  return success();
}

FailureOr<NestPlan> readNests(Block &block, plan::CommonLoopsAttr common, Storage &storage) {
  return NestReader(block, common, storage).run();
}

} // namespace cleave
