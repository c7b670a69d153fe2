// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes nests as scf loops over LLVM loads and stores; the bodies stay arith and math operations until they are
// lowered.

#include "passes/codegen/NativeEmission.h"

#include "passes/codegen/NativeNestEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave {

namespace {

class KernelEmitter {
public:
  KernelEmitter(ModuleOp module, StringRef symbol, const NestPlan &plan, const Storage &storage, bool reassociate)
      : module(module), symbol(symbol), plan(plan), storage(storage), reassociate(reassociate),
        builder(OpBuilder::atBlockEnd(module.getBody())), location(module.getLoc()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())), i64(builder.getI64Type()) {}

  uint64_t run() {
    placeBuffers();
    emitLoops();
    emitEntry();
    emitDeclaration();
    return scratchBytes;
  }

private:
  /// Where a buffer comes from: an argument of the entry, or an offset in the scratch memory.
  struct Parameter {
    unsigned buffer;
    unsigned argument;
    uint64_t scratchOffset = 0;
  };

  /// Whether a buffer takes a part of the scratch memory; one without elements takes none.
  bool isScratch(unsigned index) const {
    const Buffer &buffer = storage.getBuffers()[index];
    return buffer.kind == Buffer::Temporary && !buffer.isOnStack() && buffer.size > 0;
  }
  void placeBuffers();
  void emitLoops();
  void emitAll(NestEmitter &nests, SmallVector<Value> indices);
  void emitBlock(NestEmitter &nests, ArrayRef<Value> indices);
  Value isOutside(ArrayRef<Value> indices);
  Value fromBothEnds(Value index, int64_t size);
  void emitChunks(ArrayRef<Value> bases, Value begin, Value end);
  void emitEntry();
  void emitDeclaration();
  Value constantIndex(int64_t value) { return arith::ConstantIndexOp::create(builder, location, value); }
  Value constantBuffer(const Buffer &buffer, unsigned index);
  LLVM::LLVMFuncOp function(StringRef name, ArrayRef<Type> arguments, LLVM::Linkage linkage);
  std::string loopsName() const { return (symbol + ".loops").str(); }

  ModuleOp module;
  StringRef symbol;
  const NestPlan &plan;
  const Storage &storage;
  bool reassociate;
  OpBuilder builder;
  Location location;
  Type pointer, i64;
  SmallVector<Parameter> parameters;
  uint64_t scratchBytes = 0;
};

} // namespace

/// Constants and the stack aside, every buffer is a parameter of the loops. Each temporary has its own part of the
/// scratch memory: were parts used again, pointers would alias.
void KernelEmitter::placeBuffers() {
  unsigned arguments = 0;
  for (const Buffer &buffer : storage.getBuffers())
    arguments += buffer.kind == Buffer::Input || buffer.kind == Buffer::Output;
  unsigned next = 0;
  for (auto [index, buffer] : llvm::enumerate(storage.getBuffers())) {
    if (buffer.kind == Buffer::Input || buffer.kind == Buffer::Output) {
      parameters.push_back({static_cast<unsigned>(index), next++});
    } else if (isScratch(index)) {
      parameters.push_back({static_cast<unsigned>(index), arguments, scratchBytes});
      scratchBytes += llvm::alignTo<64>(static_cast<uint64_t>(buffer.size * elementBytes(buffer.element)));
    }
  }
}

LLVM::LLVMFuncOp KernelEmitter::function(StringRef name, ArrayRef<Type> arguments, LLVM::Linkage linkage) {
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), arguments);
  builder.setInsertionPointToEnd(module.getBody());
  auto result = LLVM::LLVMFuncOp::create(builder, location, name, type, linkage);
  Block *entry = result.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  return result;
}

Value KernelEmitter::constantBuffer(const Buffer &buffer, unsigned index) {
  DenseElementsAttr value = buffer.value;
  Type element = memoryType(buffer.element);
  if (element != buffer.element)
    value = value.mapValues(element, [](const APInt &bit) { return bit.zext(8); });
  value = value.reshape(RankedTensorType::get({buffer.size}, element));
  std::string name = (symbol + ".constant" + Twine(index)).str();
  OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
  auto global = LLVM::GlobalOp::create(atStart, location, LLVM::LLVMArrayType::get(element, buffer.size),
                                       /*isConstant=*/true, LLVM::Linkage::Private, name, value, /*alignment=*/64);
  return LLVM::AddressOfOp::create(builder, location, global);
}

void KernelEmitter::emitLoops() {
  SmallVector<Type> types(parameters.size(), pointer);
  types.append(2, i64);
  LLVM::LLVMFuncOp loops = function(loopsName(), types, LLVM::Linkage::Internal);
  loops.setNoInline(true);
  for (unsigned i = 0; i < parameters.size(); ++i)
    loops.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
  LLVM::ReturnOp::create(builder, location, ValueRange{});
  builder.setInsertionPoint(loops.getBody().front().getTerminator());

  SmallVector<Value> bases(storage.getBuffers().size());
  for (auto [i, parameter] : llvm::enumerate(parameters))
    bases[parameter.buffer] = loops.getArgument(i);
  for (auto [index, buffer] : llvm::enumerate(storage.getBuffers())) {
    if (buffer.kind == Buffer::Constant && !buffer.value.isSplat()) {
      bases[index] = constantBuffer(buffer, index);
    } else if (buffer.kind == Buffer::Temporary && !isScratch(index)) {
      Value size = LLVM::ConstantOp::create(builder, location, i64, builder.getI64IntegerAttr(buffer.size));
      bases[index] = LLVM::AllocaOp::create(builder, location, pointer, memoryType(buffer.element), size, 64);
    }
  }
  auto toIndex = [&](Value value) {
    return arith::IndexCastOp::create(builder, location, builder.getIndexType(), value).getResult();
  };
  Value begin = toIndex(loops.getArgument(parameters.size()));
  Value end = toIndex(loops.getArgument(parameters.size() + 1));
  if (plan.chunk > 0)
    return emitChunks(bases, begin, end);
  NestEmitter nests(builder, plan, storage, bases, begin, end, reassociate);
  if (plan.common.empty())
    return emitAll(nests, {});
  auto loop = scf::ForOp::create(builder, location, begin, end, constantIndex(1));
  builder.setInsertionPointToStart(loop.getBody());
  // The position in the common range, taken apart into the indices of the common loops.
  SmallVector<Value> indices(plan.common.size());
  Value rest = loop.getInductionVar();
  for (size_t i = plan.common.size(); i-- > 1;) {
    Value size = constantIndex(plan.common[i]);
    indices[i] = arith::RemUIOp::create(builder, location, rest, size);
    rest = arith::DivUIOp::create(builder, location, rest, size);
  }
  indices[0] = rest;
  if (plan.band && plan.band->band.lower.has_value() != plan.band->band.upper.has_value())
    indices[plan.band->level] = fromBothEnds(indices[plan.band->level], plan.common[plan.band->level]);
  emitAll(nests, indices);
}

/// The first index for the first, the last one for the second, the second one for the third, …: rows at one end of a
/// band need many blocks, those at the other few.
Value KernelEmitter::fromBothEnds(Value index, int64_t size) {
  Value two = constantIndex(2);
  Value half = arith::DivUIOp::create(builder, location, index, two);
  Value odd = arith::RemUIOp::create(builder, location, index, two);
  Value isEven = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, odd, constantIndex(0));
  Value fromEnd = arith::SubIOp::create(builder, location, constantIndex(size - 1), half);
  return arith::SelectOp::create(builder, location, isEven, half, fromEnd);
}

/// Whether all rows of an iteration and all columns of a block lie outside of the band.
Value KernelEmitter::isOutside(ArrayRef<Value> indices) {
  const NestBand &band = *plan.band;
  auto ends = [&](Value index, int64_t count) {
    Value first = arith::MulIOp::create(builder, location, index, constantIndex(count));
    Value last = arith::AddIOp::create(builder, location, first, constantIndex(count - 1));
    return std::pair(first, last);
  };
  auto [firstRow, lastRow] = ends(indices[band.level], band.unit);
  auto [firstColumn, lastColumn] = ends(indices.back(), band.columns);
  auto compare = [&](arith::CmpIPredicate predicate, Value row, Value column, int64_t bound) -> Value {
    Value distance = arith::SubIOp::create(builder, location, row, column);
    return arith::CmpIOp::create(builder, location, predicate, distance, constantIndex(bound));
  };
  Value below, above;
  if (band.band.lower)
    below = compare(arith::CmpIPredicate::slt, lastRow, firstColumn, *band.band.lower);
  if (band.band.upper)
    above = compare(arith::CmpIPredicate::sgt, firstRow, lastColumn, *band.band.upper);
  return !below ? above : !above ? below : arith::OrIOp::create(builder, location, below, above).getResult();
}

/// The nests in blocks for one block; of one outside of the band what sums begin with.
void KernelEmitter::emitBlock(NestEmitter &nests, ArrayRef<Value> indices) {
  ArrayRef<Nest> all = ArrayRef(plan.nests).take_front(plan.nestsInBlocks);
  OpBuilder::InsertionGuard guard(builder);
  if (plan.band) {
    auto branch = scf::IfOp::create(builder, location, isOutside(indices), /*withElseRegion=*/true);
    builder.setInsertionPointToStart(branch.thenBlock());
    for (const Nest &nest : all)
      if (linalg::LinalgOp op = nest.op; isa<linalg::FillOp>(op.getOperation()))
        nests.emit(nest, indices);
    builder.setInsertionPointToStart(branch.elseBlock());
  }
  for (const Nest &nest : all)
    nests.emit(nest, indices);
}

/// All nests at an index of the common loops, the first ones for one block after the other.
void KernelEmitter::emitAll(NestEmitter &nests, SmallVector<Value> indices) {
  ArrayRef<Nest> all = plan.nests;
  if (plan.nestsInBlocks > 0) {
    auto loop = scf::ForOp::create(builder, location, constantIndex(0), constantIndex(plan.blocks), constantIndex(1));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    indices.push_back(loop.getInductionVar());
    emitBlock(nests, indices);
    indices.pop_back();
  }
  for (const Nest &nest : all.drop_front(plan.nestsInBlocks))
    nests.emit(nest, indices);
}

/// All nests over one part of the divided range after the other, so that what they hand on stays in the cache.
void KernelEmitter::emitChunks(ArrayRef<Value> bases, Value begin, Value end) {
  auto loop = scf::ForOp::create(builder, location, begin, end, constantIndex(plan.chunk));
  builder.setInsertionPointToStart(loop.getBody());
  Value start = loop.getInductionVar();
  Value stop = arith::AddIOp::create(builder, location, start, constantIndex(plan.chunk));
  stop = arith::MinSIOp::create(builder, location, stop, end);
  NestEmitter nests(builder, plan, storage, bases, start, stop, reassociate);
  for (const Nest &nest : plan.nests)
    nests.emit(nest, {});
}

/// Loads the pointers and calls the loops, unless there is nothing to do.
void KernelEmitter::emitEntry() {
  LLVM::LLVMFuncOp entry = function(symbol, {pointer, i64, i64}, LLVM::Linkage::External);
  Value arguments = entry.getArgument(0), begin = entry.getArgument(1), end = entry.getArgument(2);
  Block *call = entry.addBlock(), *done = entry.addBlock();
  Value any = LLVM::ICmpOp::create(builder, location, LLVM::ICmpPredicate::slt, begin, end);
  LLVM::CondBrOp::create(builder, location, any, call, done);
  builder.setInsertionPointToEnd(call);
  SmallVector<Value> operands;
  for (const Parameter &parameter : parameters) {
    Value slot = LLVM::GEPOp::create(builder, location, pointer, pointer, arguments,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(parameter.argument)});
    Value base = LLVM::LoadOp::create(builder, location, pointer, slot);
    if (storage.getBuffers()[parameter.buffer].kind == Buffer::Temporary) {
      Value offset = LLVM::ConstantOp::create(builder, location, i64,
                                              builder.getI64IntegerAttr(static_cast<int64_t>(parameter.scratchOffset)));
      base = LLVM::GEPOp::create(builder, location, pointer, builder.getI8Type(), base, ArrayRef<LLVM::GEPArg>{offset});
    }
    operands.push_back(base);
  }
  operands.append({begin, end});
  LLVM::CallOp::create(builder, location, TypeRange(), SymbolRefAttr::get(module.getContext(), loopsName()), operands);
  LLVM::BrOp::create(builder, location, ValueRange{}, done);
  builder.setInsertionPointToEnd(done);
  LLVM::ReturnOp::create(builder, location, ValueRange{});
}

/// What the runtime compares a plan's tables with before it calls the kernel (runtime/drivers/cpu/NativeLibrary.h).
void KernelEmitter::emitDeclaration() {
  SmallVector<int64_t> numbers = {plan.parallelExtent};
  for (const Buffer &buffer : storage.getBuffers())
    if (buffer.kind == Buffer::Input || buffer.kind == Buffer::Output)
      numbers.push_back(buffer.size * elementBytes(buffer.element));
  if (scratchBytes > 0)
    numbers.push_back(static_cast<int64_t>(scratchBytes));
  numbers.insert(numbers.begin() + 1, static_cast<int64_t>(numbers.size()) - 1);
  auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())}, i64);
  OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
  LLVM::GlobalOp::create(atStart, location, LLVM::LLVMArrayType::get(i64, numbers.size()), /*isConstant=*/true,
                         LLVM::Linkage::External, (symbol + ".declared").str(),
                         DenseElementsAttr::get(type, ArrayRef(numbers)), /*alignment=*/8);
}

uint64_t emitKernel(ModuleOp module, StringRef symbol, const NestPlan &plan, const Storage &storage, bool reassociate) {
  return KernelEmitter(module, symbol, plan, storage, reassociate).run();
}

} // namespace cleave
