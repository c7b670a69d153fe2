// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a thread's accesses go in memory, whether they may, and atomic operations.

#include "Block.h"
#include "Formats.h"
#include "Values.h"

#include <algorithm>
#include <cstring>

namespace cleave::ptx {

std::byte *Block::inWindow(std::vector<std::byte> &bytes, const char *space, uint64_t address, size_t size,
                           bool writes) {
  uint64_t offset = address - firstAddress;
  if (offset <= bytes.size() && bytes.size() - offset >= size)
    return bytes.data() + offset;
  throw Fault(std::string(writes ? "a write" : "a read") + " of " + std::to_string(size) + " bytes at " + space +
              " address " + hexadecimal(address) + " is outside of the " + std::to_string(bytes.size()) + " bytes at " +
              hexadecimal(firstAddress));
}

std::byte *Block::access(Thread &thread, const Instruction &i, uint64_t address, size_t bytes, bool writes) {
  Space space = i.space;
  if (space == Space::Param)
    return thread.parameters.data() + thread.frames.back().parameters + i.immediate;
  if (space == Space::Generic) {
    uint64_t window = address & (uint64_t(0xff) << 56);
    space = window == sharedWindow ? Space::Shared : window == localWindow ? Space::Local : Space::Global;
    address -= space == Space::Global ? 0 : window;
  } else if (space == Space::Shared || space == Space::Local) {
    // Registers of 32 bits may hold these addresses, too.
    address = static_cast<uint32_t>(address) | (address >> 56 << 56);
  }
  if (address & (bytes - 1))
    throw Fault(std::string(writes ? "a write" : "a read") + " of " + std::to_string(bytes) + " bytes at address " +
                hexadecimal(address) + " is misaligned");
  if (space == Space::Local)
    return inWindow(thread.local, "local", address, bytes, writes);
  std::byte *place =
      space == Space::Shared ? inWindow(shared, "shared", address, bytes, writes) : memory.at(address, bytes, writes);
  if (launch.checkOrder && space != Space::Const)
    noteOrder(space == Space::Shared ? sharedOrder : globalOrder, thread, i, address, bytes / i.count * i.used, writes);
  return place;
}

namespace {

template <typename T> uint64_t extended(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::is_signed_v<T>)
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  else
    return value;
}

uint64_t fetch(const std::byte *from, Type type, uint8_t bytes) {
  if (bytes == 4)
    return type == Type::S32 ? extended<int32_t>(from) : extended<uint32_t>(from);
  if (bytes == 8)
    return extended<uint64_t>(from);
  if (bytes == 2)
    return type == Type::S16 ? extended<int16_t>(from) : extended<uint16_t>(from);
  return type == Type::S8 ? extended<int8_t>(from) : extended<uint8_t>(from);
}

} // namespace

void Block::load(Thread &thread, const Instruction &i, uint64_t *slots) {
  const std::byte *from =
      access(thread, i, slots[i.operands[7]] + static_cast<uint64_t>(i.immediate), size_t(i.kind) * i.count, false);
  for (size_t element = 0; element != i.count; ++element)
    slots[i.operands[element]] = fetch(from + element * i.kind, i.type, i.kind);
}

void Block::store(Thread &thread, const Instruction &i, uint64_t *slots) {
  std::byte *to =
      access(thread, i, slots[i.operands[7]] + static_cast<uint64_t>(i.immediate), size_t(i.kind) * i.count, true);
  for (size_t element = 0; element != i.count; ++element)
    std::memcpy(to + element * i.kind, &slots[i.operands[element]], i.kind);
}

void Block::noteOrder(AccessOrder &order, const Thread &thread, const Instruction &i, uint64_t address, size_t bytes,
                      bool writes) {
  order.note(address, bytes,
             {.thread = thread.index,
              .line = i.line,
              .phase = phase,
              .firstPhaseOfBlock = firstPhase,
              .stamp = stamps[thread.index / lanesOfWarp],
              .seen = &thread.seen,
              .reads = !writes || i.action == Action::Atomic,
              .writes = writes,
              .atomic = i.atomic,
              .constant = i.constant});
}

namespace {

template <typename T> T combined(AtomicKind kind, T old, T a, T b) {
  switch (kind) {
  case AtomicKind::Add:
    if constexpr (std::is_floating_point_v<T>)
      return old + a;
    else
      return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(a));
  case AtomicKind::Min:
    return std::min(old, a);
  case AtomicKind::Max:
    return std::max(old, a);
  case AtomicKind::Exchange:
    return a;
  case AtomicKind::CompareAndSwap:
    return old == a ? b : old;
  case AtomicKind::Increment:
    return old >= a ? T(0) : old + T(1);
  case AtomicKind::Decrement:
    return old == T(0) || old > a ? a : old - T(1);
  default:
    break;
  }
  if constexpr (std::is_integral_v<T>)
    return kind == AtomicKind::And ? old & a : kind == AtomicKind::Or ? old | a : old ^ a;
  return old;
}

template <typename T> void update(const Instruction &i, uint64_t *slots, std::byte *place) {
  T old;
  std::memcpy(&old, place, sizeof old);
  T result =
      combined(static_cast<AtomicKind>(i.kind), old, read<T>(slots, i.operands[1]), read<T>(slots, i.operands[2]));
  std::memcpy(place, &result, sizeof result);
  write<T>(slots, i.operands[0], old);
}

/// Additions of the formats of 16 bits.
void addNarrow(const Instruction &i, uint64_t *slots, std::byte *place) {
  size_t bytes = bytesOf(i.type);
  bool brain = i.type == Type::BF16 || i.type == Type::BF16x2;
  uint32_t old = 0, result = 0, added = read<uint32_t>(slots, i.operands[1]);
  std::memcpy(&old, place, bytes);
  for (size_t shift = 0; shift != 8 * bytes; shift += 16) {
    auto a = static_cast<uint16_t>(old >> shift), b = static_cast<uint16_t>(added >> shift);
    uint16_t sum = brain ? toBrain(sumToOdd(fromBrain(a), fromBrain(b))) : toHalf(sumToOdd(fromHalf(a), fromHalf(b)));
    result |= uint32_t(sum) << shift;
  }
  std::memcpy(place, &result, bytes);
  slots[i.operands[0]] = old;
}

} // namespace

void Block::performAtomic(Thread &thread, const Instruction &i, uint64_t *slots) {
  std::byte *place =
      access(thread, i, slots[i.operands[7]] + static_cast<uint64_t>(i.immediate), bytesOf(i.type), true);
  switch (i.type) {
  case Type::F16:
  case Type::F16x2:
  case Type::BF16:
  case Type::BF16x2:
    return addNarrow(i, slots, place);
  case Type::F32:
    return update<float>(i, slots, place);
  case Type::F64:
    return update<double>(i, slots, place);
  case Type::S32:
    return update<int32_t>(i, slots, place);
  case Type::S64:
    return update<int64_t>(i, slots, place);
  case Type::U64:
  case Type::B64:
    return update<uint64_t>(i, slots, place);
  case Type::B16:
    return update<uint16_t>(i, slots, place);
  default:
    return update<uint32_t>(i, slots, place);
  }
}

} // namespace cleave::ptx
