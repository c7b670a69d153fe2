// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic of integers, alone and in chains with a carry.

#include "Statement.h"
#include "Values.h"

#include <algorithm>
#include <limits>

namespace cleave::ptx {
namespace {

template <typename T> using Unsigned = std::make_unsigned_t<T>;
/// Twice as wide, of the same sign.
template <typename T>
using Wide =
    std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;

// Unsigned arithmetic of at least 32 bits wraps without undefined behaviour, also where `T` is narrower than int.
template <typename T> uint64_t bits(T value) { return static_cast<uint64_t>(value); }

struct Add {
  template <typename T> static T apply(T a, T b) { return static_cast<T>(bits(a) + bits(b)); }
};
struct Subtract {
  template <typename T> static T apply(T a, T b) { return static_cast<T>(bits(a) - bits(b)); }
};
struct MultiplyLow {
  template <typename T> static T apply(T a, T b) { return static_cast<T>(bits(a) * bits(b)); }
};
struct MultiplyHigh {
  template <typename T> static T apply(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T)));
  }
};
/// By zero all bits are set, as GPUs have it; PTX leaves it open.
struct Divide {
  template <typename T> static T apply(T a, T b) {
    if (b == 0)
      return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return static_cast<T>(-bits(a));
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <typename T> static T apply(T a, T b) {
    if (b == 0)
      return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return 0;
    return static_cast<T>(a % b);
  }
};
struct Minimum {
  template <typename T> static T apply(T a, T b) { return std::min(a, b); }
};
struct Maximum {
  template <typename T> static T apply(T a, T b) { return std::max(a, b); }
};
struct Negate {
  template <typename T> static T apply(T a) { return static_cast<T>(-bits(a)); }
};
struct Absolute {
  template <typename T> static T apply(T a) { return std::is_signed_v<T> && a < T(0) ? static_cast<T>(-bits(a)) : a; }
};

template <typename T, typename Operation> void unary(const Instruction &i, uint64_t *slots) {
  write<T>(slots, i.operands[0], Operation::apply(read<T>(slots, i.operands[1])));
}

template <typename T, typename Operation> void binary(const Instruction &i, uint64_t *slots) {
  write<T>(slots, i.operands[0], Operation::apply(read<T>(slots, i.operands[1]), read<T>(slots, i.operands[2])));
}

/// Of s32 alone: the sum or difference, clamped.
template <typename Operation> void saturated(const Instruction &i, uint64_t *slots) {
  int64_t exact =
      Operation::apply(int64_t{read<int32_t>(slots, i.operands[1])}, int64_t{read<int32_t>(slots, i.operands[2])});
  write(slots, i.operands[0],
        static_cast<int32_t>(
            std::clamp<int64_t>(exact, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max())));
}

template <typename T> void multiplyWide(const Instruction &i, uint64_t *slots) {
  write<Wide<T>>(slots, i.operands[0],
                 static_cast<Wide<T>>(read<T>(slots, i.operands[1])) * read<T>(slots, i.operands[2]));
}

template <typename T, typename Operation> void multiplyAdd(const Instruction &i, uint64_t *slots) {
  T product = Operation::apply(read<T>(slots, i.operands[1]), read<T>(slots, i.operands[2]));
  write<T>(slots, i.operands[0], Add::apply(product, read<T>(slots, i.operands[3])));
}

template <typename T> void multiplyAddWide(const Instruction &i, uint64_t *slots) {
  using W = Wide<T>;
  W product = static_cast<W>(read<T>(slots, i.operands[1])) * read<T>(slots, i.operands[2]);
  write<W>(slots, i.operands[0], Add::apply(product, read<W>(slots, i.operands[3])));
}

/// |a - b| + c
template <typename T> void sumOfDifferences(const Instruction &i, uint64_t *slots) {
  T a = read<T>(slots, i.operands[1]), b = read<T>(slots, i.operands[2]);
  write<T>(slots, i.operands[0],
           static_cast<T>(bits(a < b ? b : a) - bits(a < b ? a : b) + bits(read<T>(slots, i.operands[3]))));
}

template <typename Operation> Instruction::Compute unaryOf(Type type) {
  return withInteger(type, [](auto t) -> Instruction::Compute { return together<unary<decltype(t), Operation>>(); });
}

template <typename Operation> Instruction::Compute binaryOf(Type type) {
  return withInteger(type, [](auto t) -> Instruction::Compute {
    if constexpr (std::is_same_v<decltype(t), bool>)
      return nullptr;
    else
      return together<binary<decltype(t), Operation>>();
  });
}

// Chains with a carry. Operands: result, sources, last the slot of the carry. `kind` has these bits.
enum : uint8_t { ReadsCarry = 1, WritesCarry = 2, Subtracts = 4 };

template <typename T> void addWithCarry(const Instruction &i, uint64_t *slots) {
  using W = unsigned __int128;
  W a = read<T>(slots, i.operands[1]), b = read<T>(slots, i.operands[2]);
  W carry = i.kind & ReadsCarry ? slots[i.operands[3]] & 1 : 0;
  // The carry of a subtraction is its borrow.
  W sum = i.kind & Subtracts ? a - b - carry : a + b + carry;
  write<T>(slots, i.operands[0], static_cast<T>(sum));
  if (i.kind & WritesCarry)
    slots[i.operands[3]] = static_cast<uint64_t>(sum >> (8 * sizeof(T))) & 1;
}

template <typename T, typename Operation> void multiplyAddWithCarry(const Instruction &i, uint64_t *slots) {
  T product = Operation::apply(read<T>(slots, i.operands[1]), read<T>(slots, i.operands[2]));
  unsigned __int128 sum = Unsigned<T>(product);
  sum += Unsigned<T>(read<T>(slots, i.operands[3]));
  sum += i.kind & ReadsCarry ? slots[i.operands[4]] & 1 : 0;
  write<T>(slots, i.operands[0], static_cast<T>(sum));
  if (i.kind & WritesCarry)
    slots[i.operands[4]] = static_cast<uint64_t>(sum >> (8 * sizeof(T))) & 1;
}

bool isWord(Type type) { return bytesOf(type) >= 4; }

void decodeCarry(Statement &s, Type type, uint8_t kind) {
  if (!isWord(type))
    s.fail("a carry is known of 32 and 64 bits only");
  s.expectOperands(3);
  s.allOperands(type);
  s.instruction.kind = kind;
  s.instruction.operands[3] = s.builder.carry();
  s.instruction.compute = bytesOf(type) == 8 ? addWithCarry<uint64_t> : addWithCarry<uint32_t>;
  s.emit();
}

void decodeCarryOnly(Statement &s) {
  bool subtracts = s.name == "subc", writes = s.take("cc");
  decodeCarry(s, s.takeType(), ReadsCarry | (writes ? WritesCarry : 0) | (subtracts ? Subtracts : 0));
}

void decodeMultiplyAddCarry(Statement &s, Type type, bool high, uint8_t kind) {
  s.expectOperands(4);
  s.allOperands(type);
  s.instruction.kind = kind;
  s.instruction.operands[4] = s.builder.carry();
  s.instruction.compute = withInteger(type, [&](auto t) -> Instruction::Compute {
    using T = decltype(t);
    if constexpr (sizeof(T) < 4)
      return nullptr;
    else
      return high ? multiplyAddWithCarry<T, MultiplyHigh> : multiplyAddWithCarry<T, MultiplyLow>;
  });
  if (!s.instruction.compute)
    s.fail("a carry is known of 32 and 64 bits only");
  s.emit();
}

/// mul and mad: the low half, the high half, or all of a product.
void decodeMultiply(Statement &s, Type type) {
  bool adds = s.name != "mul", carryIn = s.name == "madc", carryOut = s.take("cc");
  int part = s.takeOneOf({"lo", "hi", "wide"});
  if (carryIn || carryOut)
    return decodeMultiplyAddCarry(s, type, part == 1, (carryIn ? ReadsCarry : 0) | (carryOut ? WritesCarry : 0));
  s.expectOperands(adds ? 4 : 3);
  s.allOperands(type);
  s.instruction.compute = withInteger(type, [&](auto t) -> Instruction::Compute {
    using T = decltype(t);
    if constexpr (sizeof(T) == 1) {
      return nullptr;
    } else {
      if (part == 0)
        return adds ? together<multiplyAdd<T, MultiplyLow>>() : together<binary<T, MultiplyLow>>();
      if (part == 1)
        return adds ? together<multiplyAdd<T, MultiplyHigh>>() : together<binary<T, MultiplyHigh>>();
      if constexpr (sizeof(T) < 8)
        return adds ? together<multiplyAddWide<T>>() : together<multiplyWide<T>>();
      return nullptr;
    }
  });
  s.emit();
}

void decodeTyped(Statement &s) {
  Type type = s.takeType();
  isFloat(type) ? decodeFloatArithmetic(s, type) : decodeIntegerArithmetic(s, type);
}

void decodeSumOfDifferences(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(4);
  s.allOperands(type);
  s.instruction.compute = withInteger(type, [](auto t) -> Instruction::Compute {
    if constexpr (std::is_same_v<decltype(t), bool>)
      return nullptr;
    else
      return sumOfDifferences<decltype(t)>;
  });
  s.emit();
}

Instruction::Compute functionOf(Statement &s, Type type) {
  if (s.name == "add")
    return binaryOf<Add>(type);
  if (s.name == "sub")
    return binaryOf<Subtract>(type);
  if (s.name == "div")
    return binaryOf<Divide>(type);
  if (s.name == "rem")
    return binaryOf<Remainder>(type);
  if (s.name == "min")
    return binaryOf<Minimum>(type);
  if (s.name == "max")
    return binaryOf<Maximum>(type);
  if (s.name == "neg")
    return unaryOf<Negate>(type);
  if (s.name == "abs")
    return unaryOf<Absolute>(type);
  s.fail(std::string(1, '\'').append(s.name).append("' is not known of integers"));
}

} // namespace

void decodeIntegerArithmetic(Statement &s, Type type) {
  if (s.name == "mul" || s.name == "mad" || s.name == "madc")
    return decodeMultiply(s, type);
  bool subtracts = s.name == "sub";
  if (s.take("cc"))
    return decodeCarry(s, type, WritesCarry | (subtracts ? Subtracts : 0));
  s.expectOperands(s.name == "neg" || s.name == "abs" ? 2 : 3);
  s.allOperands(type);
  s.instruction.compute = functionOf(s, type);
  if (s.take("sat"))
    s.instruction.compute = subtracts ? saturated<Subtract> : saturated<Add>;
  if (!s.instruction.compute)
    s.fail("'" + std::string(s.name) + "' is not known of this type");
  s.emit();
}

void addIntegerDecoders(DecoderTable &table) {
  for (std::string_view name : {"add", "sub", "mul", "mad", "madc", "div", "rem", "min", "max", "neg", "abs"})
    table[name] = decodeTyped;
  table["addc"] = table["subc"] = decodeCarryOnly;
  table["sad"] = decodeSumOfDifferences;
}

} // namespace cleave::ptx
