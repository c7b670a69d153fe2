// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the loops of one nest. Addresses grow from loop to loop, so that each loop adds only its own part; results
// that the innermost loops join into stay in registers.

#include "passes/codegen/NativeNestEmitter.h"

#include "passes/codegen/NestBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace cleave {

Type memoryType(Type element) {
  return element.isInteger(1) ? Type(IntegerType::get(element.getContext(), 8)) : element;
}

//===-- memory ------------------------------------------------------------------------------------------------===//

Value NestEmitter::index(int64_t value) { return arith::ConstantIndexOp::create(builder, location, value); }

Value NestEmitter::sum(Value a, Value b) {
  return !a ? b : !b ? a : arith::AddIOp::create(builder, location, a, b, arith::IntegerOverflowFlags::nsw).getResult();
}

Value NestEmitter::scaled(Value value, int64_t factor) {
  if (factor == 0 || factor == 1)
    return factor == 0 ? Value() : value;
  return arith::MulIOp::create(builder, location, value, index(factor), arith::IntegerOverflowFlags::nsw);
}

Value NestEmitter::address(unsigned buffer, Value offset) {
  if (!offset)
    return bases[buffer];
  Value position = arith::IndexCastOp::create(builder, location, builder.getI64Type(), offset);
  return LLVM::GEPOp::create(builder, location, bases[buffer].getType(),
                             memoryType(storage.getBuffers()[buffer].element), bases[buffer],
                             ArrayRef<LLVM::GEPArg>{position}, LLVM::GEPNoWrapFlags::inbounds);
}

Value NestEmitter::splat(const Buffer &buffer) {
  return arith::ConstantOp::create(builder, location, buffer.value.getSplatValue<TypedAttr>());
}

Value NestEmitter::load(unsigned buffer, Value offset) {
  if (!bases[buffer])
    return splat(storage.getBuffers()[buffer]);
  Type element = storage.getBuffers()[buffer].element, inMemory = memoryType(element);
  Value value = LLVM::LoadOp::create(builder, location, inMemory, address(buffer, offset), elementBytes(element));
  if (inMemory == element)
    return value;
  Value zero = arith::ConstantOp::create(builder, location, builder.getIntegerAttr(inMemory, 0));
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, value, zero);
}

void NestEmitter::store(unsigned buffer, Value offset, Value element) {
  Type inMemory = memoryType(element.getType());
  int64_t alignment = elementBytes(element.getType());
  if (inMemory != element.getType())
    element = arith::ExtUIOp::create(builder, location, inMemory, element);
  LLVM::StoreOp::create(builder, location, element, address(buffer, offset), alignment);
}

/// An element that the body reads by itself.
Value NestEmitter::loadElement(Value tensor, ValueRange indices) {
  const View *view = storage.find(tensor);
  Value offset = view->offset ? index(view->offset) : Value();
  for (auto [position, stride] : llvm::zip(indices, view->strides))
    offset = sum(offset, scaled(position, stride));
  return load(view->buffer, offset);
}

//===-- loops -------------------------------------------------------------------------------------------------===//

void NestEmitter::emit(const Nest &nest, ArrayRef<Value> indices) {
  if (nest.isEmpty())
    return;
  location = builder.getUnknownLoc();
  loopIndices.assign(nest.sizes.size(), Value());
  squareStarts.clear();
  Offsets offsets;
  for (const std::optional<Access> &access : nest.accesses)
    offsets.push_back(access && access->offset ? index(access->offset) : Value());
  for (auto [number, level] : llvm::enumerate(nest.outer)) {
    if (number == plan.squaredCommon)
      squareStarts[level.loops.back()] = scaled(indices[number], plan.square);
    else
      offsets = advanced(nest, level, indices[number], offsets);
  }
  SmallVector<Value> carried;
  emitLevel(nest, 0, offsets, carried);
}

std::pair<Value, Value> NestEmitter::bounds(const Level &level) {
  switch (level.range) {
  case plan::LoopRange::Whole:
  case plan::LoopRange::Squares:
    return {index(0), index(level.size)};
  case plan::LoopRange::Divided:
    return {begin, end};
  case plan::LoopRange::InSquare:
    break;
  }
  Value start = squareStarts.lookup(level.loops.back());
  return {start, arith::MinSIOp::create(builder, location, sum(start, index(plan.square)), index(level.size))};
}

NestEmitter::Offsets NestEmitter::advanced(const Nest &nest, const Level &level, Value position,
                                           const Offsets &offsets) {
  if (level.loops.size() == 1)
    loopIndices[level.loops[0]] = position;
  Offsets result(offsets);
  for (auto [offset, access] : llvm::zip(result, nest.accesses))
    if (access)
      offset = sum(offset, scaled(position, level.step(*access)));
  return result;
}

/// The first of the innermost levels along which no result moves.
unsigned NestEmitter::carriedFrom(const Nest &nest) const {
  unsigned from = nest.inner.size();
  linalg::LinalgOp op = nest.op;
  auto stays = [&](const Level &level) {
    for (OpOperand &init : op.getDpsInitsMutable())
      if (const auto &access = nest.accesses[init.getOperandNumber()]; access && level.step(*access) != 0)
        return false;
    return true;
  };
  while (from > 0 && stays(nest.inner[from - 1]))
    --from;
  return from;
}

/// What tells LLVM not to unroll a loop.
static LLVM::LoopAnnotationAttr keepRolled(MLIRContext *context) {
  auto unroll = LLVM::LoopUnrollAttr::get(context, BoolAttr::get(context, true), {}, {}, {}, {}, {}, {});
  return LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});
}

/// Whether a level is a few sums side by side to which loops around it add: a vector that is to stay in registers.
/// Unrolled, it becomes scalar sums, and LLVM vectorizes a loop around them with gathers.
static bool isVectorOfSums(const Nest &nest, unsigned level) {
  constexpr int64_t most = 64;
  const Level &current = nest.inner[level];
  auto isSummed = [&](const Level &each) { return nest.reduction[each.loops[0]]; };
  return level + 1 == nest.inner.size() && !nest.tile && current.range == plan::LoopRange::Whole &&
         current.size <= most && !isSummed(current) && llvm::any_of(nest.inner, isSummed);
}

void NestEmitter::emitLevel(const Nest &nest, unsigned level, const Offsets &offsets, SmallVectorImpl<Value> &carried) {
  unsigned first = carriedFrom(nest);
  if (level == nest.inner.size()) {
    if (!nest.tile)
      return emitBody(nest, offsets, carried, first < level);
    bool isCarried = first < level;
    if (!isCarried)
      carried = loadSums(nest, offsets);
    emitTile(nest, offsets, carried);
    if (!isCarried)
      storeSums(nest, offsets, carried);
    return;
  }
  linalg::LinalgOp op = nest.op;
  auto eachResult = [&](auto body) {
    for (auto [i, init] : llvm::enumerate(op.getDpsInitsMutable()))
      body(i, nest.accesses[init.getOperandNumber()]->buffer, offsets[init.getOperandNumber()]);
  };
  if (level == first && nest.tile)
    carried = loadSums(nest, offsets);
  else if (level == first)
    eachResult([&](size_t, unsigned buffer, Value offset) { carried.push_back(load(buffer, offset)); });
  const Level &current = nest.inner[level];
  auto [lower, upper] = bounds(current);
  Value step = index(current.range == plan::LoopRange::Squares ? plan.square : 1);
  auto loop = scf::ForOp::create(builder, location, lower, upper, step, carried);
  if (isVectorOfSums(nest, level))
    loop->setDiscardableAttr("loop_annotation", keepRolled(builder.getContext()));
  {
    OpBuilder::InsertionGuard guard(builder);
    Block *body = loop.getBody();
    if (!carried.empty()) {
      builder.setInsertionPointToEnd(body);
    } else {
      builder.setInsertionPoint(body->getTerminator());
    }
    SmallVector<Value> inside(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    if (current.range == plan::LoopRange::Squares) {
      squareStarts[current.loops.back()] = loop.getInductionVar();
      emitLevel(nest, level + 1, offsets, inside);
    } else {
      emitLevel(nest, level + 1, advanced(nest, current, loop.getInductionVar(), offsets), inside);
    }
    if (!carried.empty())
      scf::YieldOp::create(builder, location, inside);
  }
  carried.assign(loop.getResults().begin(), loop.getResults().end());
  if (level == first) {
    if (nest.tile)
      storeSums(nest, offsets, carried);
    else
      eachResult([&](size_t i, unsigned buffer, Value offset) { store(buffer, offset, carried[i]); });
    carried.clear();
  }
}

//===-- tiles -------------------------------------------------------------------------------------------------===//

/// The addresses of an access for each copy of a tile, relative to its own: one offset a copy.
static SmallVector<int64_t> copiesOf(const Nest &nest, const Access &access) {
  SmallVector<int64_t> list = {0};
  for (unsigned loop : nest.tile->copies) {
    SmallVector<int64_t> longer;
    for (int64_t start : list)
      for (int64_t i = 0; i < nest.sizes[loop]; ++i)
        longer.push_back(start + i * access.coefficients[loop]);
    list = std::move(longer);
  }
  return list;
}

static VectorType vectorOf(Type element, int64_t width) { return VectorType::get({width}, element); }

Value NestEmitter::loadVector(const Access &access, Value offset, int64_t width) {
  Type element = storage.getBuffers()[access.buffer].element;
  return LLVM::LoadOp::create(builder, location, vectorOf(element, width), address(access.buffer, offset),
                              elementBytes(element));
}

Value NestEmitter::loadForAll(const Access &access, Value offset, int64_t width) {
  Value element = load(access.buffer, offset);
  VectorType type = vectorOf(element.getType(), width);
  Value none = LLVM::PoisonOp::create(builder, location, type);
  Value zero = LLVM::ConstantOp::create(builder, location, builder.getI32Type(), builder.getI32IntegerAttr(0));
  Value first = LLVM::InsertElementOp::create(builder, location, type, none, element, zero);
  SmallVector<int32_t> all(static_cast<size_t>(width), 0);
  return LLVM::ShuffleVectorOp::create(builder, location, first, none, all);
}

SmallVector<Value> NestEmitter::loadSums(const Nest &nest, const Offsets &offsets) {
  const Access &result = *nest.accesses[2];
  bool isSummed = nest.reduction[nest.tile->lanes];
  VectorType type = vectorOf(storage.getBuffers()[result.buffer].element, nest.tile->width);
  SmallVector<Value> sums;
  for (int64_t copy : copiesOf(nest, result)) {
    if (isSummed)
      sums.push_back(arith::ConstantOp::create(builder, location, builder.getZeroAttr(type)));
    else
      sums.push_back(loadVector(result, sum(offsets[2], copy ? index(copy) : Value()), nest.tile->width));
  }
  return sums;
}

void NestEmitter::storeSums(const Nest &nest, const Offsets &offsets, ArrayRef<Value> sums) {
  const Access &result = *nest.accesses[2];
  Type element = storage.getBuffers()[result.buffer].element;
  for (auto [copy, value] : llvm::zip_equal(copiesOf(nest, result), sums)) {
    Value offset = sum(offsets[2], copy ? index(copy) : Value());
    if (!nest.reduction[nest.tile->lanes]) {
      LLVM::StoreOp::create(builder, location, value, address(result.buffer, offset), elementBytes(element));
      continue;
    }
    if (isa<IntegerType>(element)) {
      Value total = LLVM::vector_reduce_add::create(builder, location, element, value);
      store(result.buffer, offset, arith::AddIOp::create(builder, location, load(result.buffer, offset), total));
      continue;
    }
    auto anyOrder = LLVM::FastmathFlagsAttr::get(builder.getContext(), LLVM::FastmathFlags::reassoc);
    Value total =
        LLVM::vector_reduce_fadd::create(builder, location, element, load(result.buffer, offset), value, anyOrder);
    store(result.buffer, offset, total);
  }
}

/// Adds one product to each sum. What several copies read is loaded once.
void NestEmitter::emitTile(const Nest &nest, const Offsets &offsets, SmallVectorImpl<Value> &sums) {
  const RegisterTile &tile = *nest.tile;
  unsigned vectors = tile.vectors, other = 1 - vectors;
  const Access &wide = *nest.accesses[vectors], &single = *nest.accesses[other];
  bool isSummed = nest.reduction[tile.lanes];
  llvm::DenseMap<int64_t, Value> wideLoads, singleLoads;
  auto copiesOfWide = copiesOf(nest, wide), copiesOfSingle = copiesOf(nest, single);
  for (size_t i = 0; i < sums.size(); ++i) {
    Value &a = wideLoads[copiesOfWide[i]], &b = singleLoads[copiesOfSingle[i]];
    auto offsetOf = [&](unsigned operand, int64_t copy) { return sum(offsets[operand], copy ? index(copy) : Value()); };
    if (!a)
      a = loadVector(wide, offsetOf(vectors, copiesOfWide[i]), tile.width);
    if (!b)
      b = isSummed ? loadVector(single, offsetOf(other, copiesOfSingle[i]), tile.width)
                   : loadForAll(single, offsetOf(other, copiesOfSingle[i]), tile.width);
    if (isa<IntegerType>(getElementTypeOrSelf(a))) {
      Value product = arith::MulIOp::create(builder, location, a, b);
      sums[i] = arith::AddIOp::create(builder, location, sums[i], product);
    } else {
      Value product = arith::MulFOp::create(builder, location, a, b);
      sums[i] = arith::AddFOp::create(builder, location, sums[i], product);
    }
  }
}

//===-- body --------------------------------------------------------------------------------------------------===//

void NestEmitter::emitBody(const Nest &nest, const Offsets &offsets, SmallVectorImpl<Value> &carried, bool isCarried) {
  linalg::LinalgOp op = nest.op;
  IRMapping mapping;
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument element = op.getMatchingBlockArgument(&operand);
    if (element.use_empty())
      continue;
    unsigned number = operand.getOperandNumber();
    if (!isa<RankedTensorType>(operand.get().getType()))
      mapping.map(element, builder.clone(*operand.get().getDefiningOp())->getResult(0));
    else if (op.isDpsInit(&operand) && isCarried)
      mapping.map(element, carried[number - op.getNumDpsInputs()]);
    else if (const auto &access = nest.accesses[number])
      mapping.map(element, load(access->buffer, offsets[number]));
    else // Nobody wrote the tensor: any value will do.
      mapping.map(element, arith::ConstantOp::create(builder, location, builder.getZeroAttr(element.getType())));
  }
  SmallVector<Value> results = cloneBody(nest, mapping);
  if (isCarried) {
    carried.assign(results.begin(), results.end());
    return;
  }
  for (auto [init, result] : llvm::zip(op.getDpsInitsMutable(), results))
    store(nest.accesses[init.getOperandNumber()]->buffer, offsets[init.getOperandNumber()], result);
}

/// Lets a sum or product with the result so far be joined in any order, so that it can be vectorized.
static void allowReassociation(Operation *op) {
  auto flags = arith::FastMathFlagsAttr::get(op->getContext(), arith::FastMathFlags::reassoc);
  if (auto add = dyn_cast_or_null<arith::AddFOp>(op))
    add.setFastmathAttr(flags);
  else if (auto mul = dyn_cast_or_null<arith::MulFOp>(op))
    mul.setFastmathAttr(flags);
}

/// The index of a loop of the operation, of which the nest may have made several.
Value NestEmitter::indexOf(const Nest &nest, unsigned loop) {
  Value own = loopIndices[loop] ? loopIndices[loop] : index(0);
  auto split = llvm::find_if(nest.splits, [&](const LoopSplit &each) { return each.loop == loop; });
  if (split == nest.splits.end())
    return own;
  auto inner = static_cast<unsigned>(nest.sizes.size() - (nest.splits.end() - split));
  return sum(scaled(own, split->unit), indexOf(nest, inner));
}

SmallVector<Value> NestEmitter::cloneBody(const Nest &nest, IRMapping &mapping) {
  linalg::LinalgOp op = nest.op;
  Block *body = op.getBlock();
  auto loopIndex = [&](unsigned loop) { return indexOf(nest, loop); };
  auto element = [&](Value tensor, ValueRange indices) { return loadElement(tensor, indices); };
  SmallVector<Value> results = writeBody(builder, op, mapping, {loopIndex, element});
  for (auto [i, yielded] : llvm::enumerate(body->getTerminator()->getOperands())) {
    BlockArgument soFar = op.getMatchingBlockArgument(op.getDpsInitOperand(i));
    Operation *join = yielded.getDefiningOp();
    if (reassociate && join && llvm::is_contained(join->getOperands(), soFar))
      allowReassociation(results[i].getDefiningOp());
  }
  return results;
}

} // namespace cleave
