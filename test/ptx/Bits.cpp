// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Logic, shifts, and whatever picks, places and counts bits.

#include "Statement.h"
#include "Values.h"

#include <algorithm>

namespace cleave::ptx {
namespace {

using Compute = Instruction::Compute;

struct And {
  static uint64_t apply(uint64_t a, uint64_t b) { return a & b; }
};
struct Or {
  static uint64_t apply(uint64_t a, uint64_t b) { return a | b; }
};
struct Xor {
  static uint64_t apply(uint64_t a, uint64_t b) { return a ^ b; }
};

template <typename Operation> void logic(const Instruction &i, uint64_t *slots) {
  slots[i.operands[0]] = Operation::apply(slots[i.operands[1]], slots[i.operands[2]]);
}

template <typename Operation> void decodeLogic(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(3);
  s.allOperands(type);
  s.instruction.compute = together<logic<Operation>>();
  s.emit();
}

void decodeNot(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(2);
  s.allOperands(type);
  s.instruction.compute = [](const Instruction &i, uint64_t *slots) { slots[i.operands[0]] = ~slots[i.operands[1]]; };
  s.emit();
}

/// Counts past the width leave nothing, or the sign.
template <typename T> void shiftLeft(const Instruction &i, uint64_t *slots) {
  auto count = read<uint32_t>(slots, i.operands[2]);
  write<T>(slots, i.operands[0],
           count < 8 * sizeof(T) ? static_cast<T>(static_cast<uint64_t>(read<T>(slots, i.operands[1])) << count) : 0);
}

template <typename T> void shiftRight(const Instruction &i, uint64_t *slots) {
  auto count = std::min<uint32_t>(read<uint32_t>(slots, i.operands[2]), 8 * sizeof(T));
  T value = read<T>(slots, i.operands[1]);
  if (std::is_signed_v<T>)
    write<T>(slots, i.operands[0], static_cast<T>(value >> std::min<uint32_t>(count, 8 * sizeof(T) - 1)));
  else
    write<T>(slots, i.operands[0], count < 8 * sizeof(T) ? static_cast<T>(value >> count) : 0);
}

void decodeShift(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(3);
  s.instruction.operands = {s.result(0), s.source(1, type), s.source(2, Type::U32)};
  s.instruction.compute = withInteger(type, [&](auto t) -> Compute {
    using T = decltype(t);
    return s.name == "shl" ? together<shiftLeft<T>>() : together<shiftRight<T>>();
  });
  s.emit();
}

/// Shifts the 64 bits of b (high) and a (low), left or right by c, clamped or modulo 32; kind: 1 right, 2 clamped.
void funnelShift(const Instruction &i, uint64_t *slots) {
  uint64_t both = (slots[i.operands[2]] << 32) | read<uint32_t>(slots, i.operands[1]);
  auto count = read<uint32_t>(slots, i.operands[3]);
  count = i.kind & 2 ? std::min(count, 32u) : count & 31;
  write(slots, i.operands[0], static_cast<uint32_t>(i.kind & 1 ? both >> count : (both << count) >> 32));
}

void decodeFunnelShift(Statement &s) {
  bool right = s.takeOneOf({"l", "r"}) == 1, wraps = s.takeOneOf({"clamp", "wrap"}) == 1;
  Type type = s.takeType();
  s.expectOperands(4);
  s.allOperands(type);
  s.instruction.kind = static_cast<uint8_t>((right ? 1 : 0) | (wraps ? 0 : 2));
  s.instruction.compute = funnelShift;
  s.emit();
}

/// The field of length c at b, extended with its sign where the type has one: its last bit, or the value's if it ends
/// beyond.
template <typename T> void extractField(const Instruction &i, uint64_t *slots) {
  constexpr uint32_t width = 8 * sizeof(T);
  T a = read<T>(slots, i.operands[1]);
  uint32_t begin = slots[i.operands[2]] & 255, length = slots[i.operands[3]] & 255;
  uint64_t value = begin < width ? static_cast<std::make_unsigned_t<T>>(a) >> begin : 0;
  bool sign =
      std::is_signed_v<T> && length != 0 && ((static_cast<uint64_t>(a) >> std::min(begin + length - 1, width - 1)) & 1);
  uint32_t taken = std::min(length, begin < width ? width - begin : 0);
  uint64_t mask = taken >= 64 ? ~uint64_t(0) : (uint64_t(1) << taken) - 1;
  write<T>(slots, i.operands[0], static_cast<T>(sign ? value | ~mask : value & mask));
}

void decodeExtractField(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(4);
  s.instruction.operands = {s.result(0), s.source(1, type), s.source(2, Type::U32), s.source(3, Type::U32)};
  s.instruction.compute = withInteger(type, [](auto t) -> Compute {
    if constexpr (std::is_same_v<decltype(t), bool>)
      return nullptr;
    else
      return extractField<decltype(t)>;
  });
  s.emit();
}

/// b with its field of length d at c replaced by a's low bits.
template <typename T> void insertField(const Instruction &i, uint64_t *slots) {
  constexpr uint32_t width = 8 * sizeof(T);
  uint32_t begin = slots[i.operands[3]] & 255, length = slots[i.operands[4]] & 255;
  T b = read<T>(slots, i.operands[2]);
  if (begin < width && length != 0) {
    T ones = length >= width ? static_cast<T>(~T(0)) : static_cast<T>((T(1) << length) - 1);
    T mask = static_cast<T>(ones << begin);
    b = static_cast<T>((b & ~mask) | ((read<T>(slots, i.operands[1]) << begin) & mask));
  }
  write<T>(slots, i.operands[0], b);
}

void decodeInsertField(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(5);
  s.instruction.operands = {s.result(0), s.source(1, type), s.source(2, type), s.source(3, Type::U32),
                            s.source(4, Type::U32)};
  s.instruction.compute = bytesOf(type) == 8 ? insertField<uint64_t> : insertField<uint32_t>;
  s.emit();
}

/// The highest bit that differs from the sign; kind 1: as the count of shifts that bring it to the top.
template <typename T> void findHighest(const Instruction &i, uint64_t *slots) {
  T value = read<T>(slots, i.operands[1]);
  auto different = static_cast<std::make_unsigned_t<T>>(std::is_signed_v<T> && value < 0 ? ~value : value);
  uint32_t position = different == 0 ? ~0u : static_cast<uint32_t>(std::bit_width(different) - 1);
  if (i.kind == 1 && position != ~0u)
    position = 8 * sizeof(T) - 1 - position;
  write(slots, i.operands[0], position);
}

void decodeFindHighest(Statement &s) {
  s.instruction.kind = s.take("shiftamt");
  Type type = s.takeType();
  s.expectOperands(2);
  s.allOperands(type);
  s.instruction.compute = withInteger(type, [](auto t) -> Compute {
    if constexpr (std::is_same_v<decltype(t), bool>)
      return nullptr;
    else
      return findHighest<decltype(t)>;
  });
  s.emit();
}

template <typename T> void reverse(const Instruction &i, uint64_t *slots) {
  T value = read<T>(slots, i.operands[1]), result = 0;
  for (size_t bit = 0; bit != 8 * sizeof(T); ++bit)
    result |= static_cast<T>(((value >> bit) & 1) << (8 * sizeof(T) - 1 - bit));
  write<T>(slots, i.operands[0], result);
}
template <typename T> void countLeadingZeros(const Instruction &i, uint64_t *slots) {
  write(slots, i.operands[0], static_cast<uint32_t>(std::countl_zero(read<T>(slots, i.operands[1]))));
}
template <typename T> void countOnes(const Instruction &i, uint64_t *slots) {
  write(slots, i.operands[0], static_cast<uint32_t>(std::popcount(read<T>(slots, i.operands[1]))));
}

template <Instruction::Function narrow, Instruction::Function wide> void decodeCount(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(2);
  s.allOperands(type);
  s.instruction.compute = bytesOf(type) == 8 ? wide : narrow;
  s.emit();
}

/// Any function of three bits, by its table of truth.
void lookUp(const Instruction &i, uint64_t *slots) {
  uint64_t a = slots[i.operands[1]], b = slots[i.operands[2]], c = slots[i.operands[3]], result = 0;
  for (int row = 0; row != 8; ++row)
    if (i.kind >> row & 1)
      result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  slots[i.operands[0]] = result;
}

void decodeLookUp(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(5);
  if (s.operands[4].kind != Operand::Integer || s.operands[4].bits > 255)
    s.fail("'lop3' expects a table of 8 bits as its last operand");
  s.instruction.kind = static_cast<uint8_t>(s.operands[4].bits);
  s.operands.pop_back();
  s.allOperands(type);
  s.instruction.compute = lookUp;
  s.emit();
}

/// Four bytes picked from the eight of b and a.
void permute(const Instruction &i, uint64_t *slots) {
  uint64_t bytes = (slots[i.operands[2]] << 32) | read<uint32_t>(slots, i.operands[1]);
  auto control = read<uint32_t>(slots, i.operands[3]);
  // Of the modes besides the plain one, what each result's byte is taken from, by the control's two low bits.
  static constexpr uint32_t selectors[7][4] = {
      {},
      {0x3210, 0x4321, 0x5432, 0x6543}, // f4e
      {0x5670, 0x6701, 0x7012, 0x0123}, // b4e
      {0x0000, 0x1111, 0x2222, 0x3333}, // rc8
      {0x3210, 0x3211, 0x3222, 0x3333}, // ecl
      {0x0000, 0x1110, 0x2210, 0x3210}, // ecr
      {0x1010, 0x3232, 0x1010, 0x3232}, // rc16
  };
  uint32_t selector = i.kind == 0 ? control : selectors[i.kind][control & 3];
  uint32_t result = 0;
  for (int byte = 0; byte != 4; ++byte) {
    uint32_t choice = selector >> (4 * byte) & 15;
    uint32_t value = static_cast<uint32_t>(bytes >> (8 * (choice & 7))) & 255;
    if (choice & 8)
      value = value & 128 ? 255 : 0;
    result |= value << (8 * byte);
  }
  write(slots, i.operands[0], result);
}

void decodePermute(Statement &s) {
  Type type = s.takeType();
  s.instruction.kind = static_cast<uint8_t>(s.takeOneOf({"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}, 0));
  s.expectOperands(4);
  s.allOperands(type);
  s.instruction.compute = permute;
  s.emit();
}

/// The position of the c-th set bit of a from b on: upwards if c is positive, downwards if negative.
void findNthSet(const Instruction &i, uint64_t *slots) {
  auto mask = read<uint32_t>(slots, i.operands[1]);
  auto base = read<uint32_t>(slots, i.operands[2]);
  auto offset = read<int32_t>(slots, i.operands[3]);
  uint32_t found = ~0u;
  if (offset == 0) {
    found = base < 32 && (mask >> base & 1) ? base : ~0u;
  } else {
    int64_t left = offset < 0 ? -int64_t{offset} : offset;
    for (int64_t at = base; at >= 0 && at < 32; at += offset < 0 ? -1 : 1)
      if ((mask >> at & 1) && --left == 0) {
        found = static_cast<uint32_t>(at);
        break;
      }
  }
  write(slots, i.operands[0], found);
}

void decodeFindNthSet(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(4);
  s.allOperands(type);
  s.instruction.compute = findNthSet;
  s.emit();
}

} // namespace

void addBitDecoders(DecoderTable &table) {
  table["and"] = decodeLogic<And>;
  table["or"] = decodeLogic<Or>;
  table["xor"] = decodeLogic<Xor>;
  table["not"] = decodeNot;
  table["shl"] = table["shr"] = decodeShift;
  table["shf"] = decodeFunnelShift;
  table["bfe"] = decodeExtractField;
  table["bfi"] = decodeInsertField;
  table["bfind"] = decodeFindHighest;
  table["brev"] = decodeCount<reverse<uint32_t>, reverse<uint64_t>>;
  table["clz"] = decodeCount<countLeadingZeros<uint32_t>, countLeadingZeros<uint64_t>>;
  table["popc"] = decodeCount<countOnes<uint32_t>, countOnes<uint64_t>>;
  table["lop3"] = decodeLookUp;
  table["prmt"] = decodePermute;
  table["fns"] = decodeFindNthSet;
}

} // namespace cleave::ptx
