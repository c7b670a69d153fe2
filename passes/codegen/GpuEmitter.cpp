// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers, memory, and sums over threads.

#include "passes/codegen/GpuEmitter.h"

#include "passes/codegen/GpuLimits.h"
#include "passes/codegen/NativeNestEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave {

//===-- numbers -----------------------------------------------------------------------------------------------===//

Value NumberBuilder::constant(int64_t value) const {
  return arith::ConstantOp::create(builder, location, builder.getIntegerAttr(type, value));
}

Value NumberBuilder::add(Value a, Value b) const {
  return !a ? b : !b ? a : arith::AddIOp::create(builder, location, a, b, arith::IntegerOverflowFlags::nsw).getResult();
}

Value NumberBuilder::mul(Value a, int64_t factor) const {
  if (!a || factor == 0 || factor == 1)
    return factor == 0 ? Value() : a;
  return arith::MulIOp::create(builder, location, a, constant(factor), arith::IntegerOverflowFlags::nsw);
}

Value NumberBuilder::div(Value a, int64_t divisor) const {
  return !a || divisor == 1 ? a : arith::DivUIOp::create(builder, location, a, constant(divisor)).getResult();
}

Value NumberBuilder::rem(Value a, int64_t divisor) const {
  return !a || divisor == 1 ? Value() : arith::RemUIOp::create(builder, location, a, constant(divisor)).getResult();
}

Value NumberBuilder::min(Value a, Value b) const { return arith::MinSIOp::create(builder, location, a, b); }

Value NumberBuilder::less(Value a, Value b) const {
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, a, b);
}

Value NumberBuilder::toIndex(Value a) const {
  if (!a)
    return arith::ConstantIndexOp::create(builder, location, 0);
  return arith::IndexCastOp::create(builder, location, builder.getIndexType(), a);
}

Value NumberBuilder::toWide(Value a) const {
  return !a || a.getType().isInteger(64)
             ? a
             : arith::ExtSIOp::create(builder, location, builder.getI64Type(), a).getResult();
}

SmallVector<Value, 4> NumberBuilder::takeApart(Value position, ArrayRef<GpuLevel> levels) const {
  SmallVector<Value, 4> indices(levels.size());
  for (size_t i = levels.size(); i-- > 0;) {
    indices[i] = i == 0 ? position : rem(position, levels[i].size);
    position = i == 0 ? position : div(position, levels[i].size);
  }
  return indices;
}

//===-- memory ------------------------------------------------------------------------------------------------===//

Value MemoryBuilder::address(unsigned buffer, Value wideOffset, int64_t more) const {
  Type element = memoryType(buffers[buffer].element);
  auto moved = [&](Value base, LLVM::GEPArg by) -> Value {
    return LLVM::GEPOp::create(builder, location, base.getType(), element, base, ArrayRef<LLVM::GEPArg>{by},
                               LLVM::GEPNoWrapFlags::inbounds);
  };
  Value base = wideOffset ? moved(bases[buffer], wideOffset) : bases[buffer];
  if (more == 0)
    return base;
  Value constant = arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(more));
  return moved(base, constant);
}

Value MemoryBuilder::fromMemory(Value value, Type element) const {
  if (value.getType() == element)
    return value;
  Value zero = arith::ConstantOp::create(builder, location, builder.getIntegerAttr(value.getType(), 0));
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, value, zero);
}

Value MemoryBuilder::toMemory(Value value) const {
  Type inMemory = memoryType(value.getType());
  return inMemory == value.getType() ? value : arith::ExtUIOp::create(builder, location, inMemory, value).getResult();
}

Elements MemoryBuilder::load(unsigned buffer, Value wideOffset, int64_t step, size_t count, bool isAligned) const {
  Type element = buffers[buffer].element, inMemory = memoryType(element);
  if (!bases[buffer])
    return Elements(count,
                    arith::ConstantOp::create(builder, location, buffers[buffer].value.getSplatValue<TypedAttr>()));
  int64_t bytes = elementBytes(element);
  bool isConstant =
      (buffers[buffer].kind == Buffer::Input && !buffers[buffer].isShared) || buffers[buffer].kind == Buffer::Constant;
  auto loadAt = [&](Type type, int64_t more, int64_t alignment) -> Value {
    return LLVM::LoadOp::create(builder, location, type, address(buffer, wideOffset, more),
                                static_cast<unsigned>(alignment), /*isVolatile=*/false, /*isNonTemporal=*/false,
                                isConstant);
  };
  if (count == 1 || step == 0)
    return Elements(count, fromMemory(loadAt(inMemory, 0, bytes), element));
  Elements elements;
  if (step == 1 && isAligned) {
    Value vector =
        loadAt(VectorType::get({static_cast<int64_t>(count)}, inMemory), 0, static_cast<int64_t>(count) * bytes);
    for (size_t i = 0; i < count; ++i) {
      Value position = arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(static_cast<int32_t>(i)));
      elements.push_back(fromMemory(LLVM::ExtractElementOp::create(builder, location, vector, position), element));
    }
    return elements;
  }
  for (size_t i = 0; i < count; ++i)
    elements.push_back(fromMemory(loadAt(inMemory, static_cast<int64_t>(i) * step, bytes), element));
  return elements;
}

void MemoryBuilder::store(unsigned buffer, Value wideOffset, int64_t step, ValueRange elements, bool isAligned) const {
  int64_t bytes = elementBytes(buffers[buffer].element), count = static_cast<int64_t>(elements.size());
  auto storeAt = [&](Value value, int64_t more, int64_t alignment) {
    LLVM::StoreOp::create(builder, location, value, address(buffer, wideOffset, more),
                          static_cast<unsigned>(alignment));
  };
  if (count == 1 || step != 1 || !isAligned) {
    for (auto [i, element] : llvm::enumerate(elements))
      storeAt(toMemory(element), static_cast<int64_t>(i) * step, bytes);
    return;
  }
  VectorType type = VectorType::get({count}, memoryType(buffers[buffer].element));
  Value vector = LLVM::PoisonOp::create(builder, location, type);
  for (auto [i, element] : llvm::enumerate(elements)) {
    Value position = arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(static_cast<int32_t>(i)));
    vector = LLVM::InsertElementOp::create(builder, location, type, vector, toMemory(element), position);
  }
  storeAt(vector, 0, count * bytes);
}

//===-- shared memory -----------------------------------------------------------------------------------------===//

bool SharedMemory::hasRoom(Type element, int64_t count) const {
  return used + sharedBytesOf(element, count) <= mostSharedBytes;
}

Value SharedMemory::make(Type element, int64_t count) {
  assert(hasRoom(element, count) && "the array is larger than a kernel's shared memory");
  int64_t offset = used;
  used += sharedBytesOf(element, count);
  size = std::max(size, used);
  Type type = LLVM::LLVMArrayType::get(builder.getI8Type(), size);
  if (!array) {
    OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
    constexpr unsigned sharedSpace = 3;
    array = LLVM::GlobalOp::create(atStart, location, type, /*isConstant=*/false, LLVM::Linkage::Internal,
                                   (symbol + "_shared").str(), Attribute(), sharedAlignment, sharedSpace);
  }
  array.setGlobalType(type);
  Value base = LLVM::AddressOfOp::create(builder, location, array);
  if (offset == 0)
    return base;
  return LLVM::GEPOp::create(builder, location, base.getType(), builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)}, LLVM::GEPNoWrapFlags::inbounds);
}

void SharedMemory::reuse() {
  wait();
  used = 0;
}

Value SharedMemory::address(Value base, Value position, Type inMemory) const {
  return LLVM::GEPOp::create(builder, location, base.getType(), inMemory, base, ArrayRef<LLVM::GEPArg>{position},
                             LLVM::GEPNoWrapFlags::inbounds);
}

void SharedMemory::store(Value base, Value position, Value value) const {
  Type inMemory = memoryType(value.getType());
  if (inMemory != value.getType())
    value = arith::ExtUIOp::create(builder, location, inMemory, value);
  LLVM::StoreOp::create(builder, location, value, address(base, position, inMemory));
}

Value SharedMemory::load(Value base, Value position, Type element) const {
  Type inMemory = memoryType(element);
  Value value = LLVM::LoadOp::create(builder, location, inMemory, address(base, position, inMemory));
  return inMemory == element ? value : arith::TruncIOp::create(builder, location, element, value).getResult();
}

void SharedMemory::wait() const { NVVM::Barrier0Op::create(builder, location); }

//===-- sums over threads -------------------------------------------------------------------------------------===//

Value LaneJoiner::combine(Operation *join, Value a, Value b) const {
  Operation *copy = builder.clone(*join);
  copy->setOperands({a, b});
  return copy->getResult(0);
}

/// The value of the lane whose number differs by `distance`, a power of two.
Value LaneJoiner::exchange(Value value, int32_t distance) const {
  Type type = value.getType(), i32 = builder.getI32Type();
  auto number = [&](int32_t constant) -> Value {
    return arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(constant));
  };
  auto exchangeWord = [&](Value word) -> Value {
    return NVVM::ShflOp::create(builder, location, i32, number(-1), word, number(distance), number(warpThreads - 1),
                                NVVM::ShflKind::bfly, UnitAttr());
  };
  unsigned bits = type.getIntOrFloatBitWidth();
  Type asInteger = builder.getIntegerType(bits);
  Value word = type == asInteger ? value : arith::BitcastOp::create(builder, location, asInteger, value).getResult();
  Value result;
  if (bits <= 32) {
    Value wide = bits == 32 ? word : arith::ExtUIOp::create(builder, location, i32, word).getResult();
    wide = exchangeWord(wide);
    result = bits == 32 ? wide : arith::TruncIOp::create(builder, location, asInteger, wide).getResult();
  } else {
    Value half = arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(32));
    auto word32 = [&](Value from) { return exchangeWord(arith::TruncIOp::create(builder, location, i32, from)); };
    Value low = word32(word), high = word32(arith::ShRUIOp::create(builder, location, word, half));
    auto wide = [&](Value from) -> Value { return arith::ExtUIOp::create(builder, location, asInteger, from); };
    result =
        arith::OrIOp::create(builder, location, wide(low), arith::ShLIOp::create(builder, location, wide(high), half));
  }
  return type == asInteger ? result : arith::BitcastOp::create(builder, location, type, result).getResult();
}

void LaneJoiner::joinInWarp(JoinedValue &joined, int64_t lanes) const {
  for (int64_t distance = lanes / 2; distance > 0; distance /= 2)
    for (Value &value : joined.values)
      value = combine(joined.join, value, exchange(value, static_cast<int32_t>(distance)));
}

void LaneJoiner::join(MutableArrayRef<JoinedValue> all) {
  if (launch.lanes == 1 || all.empty())
    return;
  if (launch.innerFast)
    for (JoinedValue &joined : all)
      joinInWarp(joined, std::min(launch.lanes, warpThreads));
  if (!launch.innerFast || launch.lanes > warpThreads)
    joinShared(all);
}

/// Of a value in shared memory: one a warp, so many that they are read four at once; or one a thread.
int64_t LaneJoiner::placesOf(const JoinedValue &joined) const {
  constexpr int64_t atOnce = 4;
  if (launch.innerFast)
    return static_cast<int64_t>(llvm::alignTo(launch.lanes / warpThreads, atOnce));
  return launch.lanes * launch.groups * static_cast<int64_t>(joined.values.size());
}

/// As many values together as there is room for.
void LaneJoiner::joinShared(MutableArrayRef<JoinedValue> all) {
  while (!all.empty()) {
    SmallVector<Value> bases;
    for (JoinedValue &joined : all) {
      Type element = joined.values[0].getType();
      int64_t places = placesOf(joined);
      bool hasRoom = shared.hasRoom(element, places);
      if (!hasRoom && !bases.empty())
        break;
      if (!hasRoom)
        shared.reuse();
      bases.push_back(shared.make(element, places));
    }
    if (launch.innerFast)
      joinWarps(all.take_front(bases.size()), bases);
    else
      joinColumns(all.take_front(bases.size()), bases);
    all = all.drop_front(bases.size());
  }
}

/// Each warp leaves its value in shared memory, and every thread joins them all. What is not a warp's gets a value,
/// too.
void LaneJoiner::joinWarps(MutableArrayRef<JoinedValue> all, ArrayRef<Value> bases) const {
  int64_t warps = launch.lanes / warpThreads, places = placesOf(all.front());
  NumberBuilder n(builder, 32);
  auto write = [&](Value condition, Value place, bool isValue) {
    auto branch = scf::IfOp::create(builder, location, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    for (auto [joined, base] : llvm::zip(all, bases)) {
      Type element = joined.values[0].getType();
      Value zero = isValue ? Value() : arith::ConstantOp::create(builder, location, builder.getZeroAttr(element));
      shared.store(base, place, isValue ? joined.values[0] : zero);
    }
  };
  Value inWarp = n.rem(lane, warpThreads);
  write(arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, inWarp, n.constant(0)),
        n.div(lane, warpThreads),
        /*isValue=*/true);
  if (places > warps)
    write(n.less(lane, n.constant(places - warps)), n.add(lane, warps), /*isValue=*/false);
  shared.wait();
  for (auto [joined, base] : llvm::zip(all, bases)) {
    Type element = joined.values[0].getType();
    Elements ofWarps;
    for (int64_t i = 0; i < warps; ++i)
      ofWarps.push_back(shared.load(base, n.constant(i), element));
    joined.values[0] = combineAll(joined.join, ofWarps);
  }
}

/// Each thread leaves its values in shared memory, and the lanes of a group join those of all.
void LaneJoiner::joinColumns(MutableArrayRef<JoinedValue> all, ArrayRef<Value> bases) const {
  NumberBuilder n(builder, 32);
  int64_t width = launch.width, row = launch.groups * width;
  // Element `w` of all groups side by side, so that neighbouring threads meet neighbouring banks.
  auto position = [&](Value lane, int64_t w) { return n.add(n.add(n.mul(lane, row), group), w * launch.groups); };
  for (auto [joined, base] : llvm::zip(all, bases))
    for (auto [w, value] : llvm::enumerate(joined.values))
      shared.store(base, position(lane, static_cast<int64_t>(w)), value);
  shared.wait();
  for (auto [joined, base] : llvm::zip(all, bases))
    for (auto [w, value] : llvm::enumerate(joined.values)) {
      Type element = value.getType();
      Elements ofLanes;
      for (int64_t i = 0; i < launch.lanes; ++i)
        ofLanes.push_back(shared.load(base, n.orZero(position(n.constant(i), static_cast<int64_t>(w))), element));
      value = combineAll(joined.join, ofLanes);
    }
}

/// Pairs of neighbours first: the fewest steps behind each other.
Value LaneJoiner::combineAll(Operation *join, Elements values) const {
  while (values.size() > 1) {
    Elements next;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(combine(join, values[i], values[i + 1]));
    if (values.size() % 2)
      next.push_back(values.back());
    values = std::move(next);
  }
  return values[0];
}

} // namespace cleave
