// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cvt: between integers, between formats, and between both.

#include "Formats.h"
#include "Statement.h"
#include "Values.h"

#include <cfenv>
#include <cmath>
#include <limits>

namespace cleave::ptx {
namespace {

using Compute = Instruction::Compute;

/// Of `kind`: a floating-point result is rounded to an integer; negative results are zero; the result is tf32.
enum : uint8_t { ToInteger = 1, Relu = 2, TensorFloat = 4 };

double readAny(const Instruction &, const uint64_t *slots, Slot slot, Type type) {
  switch (type) {
  case Type::F16:
    return fromHalf(static_cast<uint16_t>(slots[slot]));
  case Type::BF16:
    return fromBrain(static_cast<uint16_t>(slots[slot]));
  case Type::F32:
    return read<float>(slots, slot);
  default:
    return read<double>(slots, slot);
  }
}

uint64_t bitsOf(double value, Type type, Rounding rounding) {
  switch (type) {
  case Type::F16:
    return toHalf(value, rounding);
  case Type::BF16:
    return toBrain(value, rounding);
  case Type::F32:
    return std::isnan(value) ? 0x7fffffff
                             : std::bit_cast<uint32_t>(static_cast<float>(
                                   rounding == Rounding::Nearest ? value : roundTo(singleFormat, value, rounding)));
  default:
    return std::bit_cast<uint64_t>(value);
  }
}

double toInteger(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  default:
    return std::nearbyint(value);
  }
}

double flushed(double value) { return std::abs(value) < 0x1p-126 ? std::copysign(0.0, value) : value; }

/// What .sat, .relu and .ftz make of a value before it is rounded to its format.
double limited(const Instruction &i, double value) {
  if (i.saturate)
    value = std::isnan(value) ? 0 : std::fmin(std::fmax(value, 0), 1);
  return (i.kind & Relu) && value < 0 ? 0 : value;
}

template <Type from, Type to> void formatToFormat(const Instruction &i, uint64_t *slots) {
  double value = readAny(i, slots, i.operands[1], from);
  if (i.flush && from == Type::F32)
    value = flushed(value);
  if (i.kind & ToInteger)
    value = toInteger(value, i.rounding);
  uint64_t bits = bitsOf(limited(i, value), to, i.rounding);
  if (i.flush && to == Type::F32 && (bits & 0x7f800000) == 0)
    bits &= 0x80000000;
  slots[i.operands[0]] = bits;
}

/// Two f32 become one register: the first source its high half.
template <Type to> void packTwo(const Instruction &i, uint64_t *slots) {
  double high = read<float>(slots, i.operands[1]), low = read<float>(slots, i.operands[2]);
  slots[i.operands[0]] = bitsOf(limited(i, high), to, i.rounding) << 16 | bitsOf(limited(i, low), to, i.rounding);
}

void toTensorFloat(const Instruction &i, uint64_t *slots) {
  constexpr Format tensorFormat{11, 127, -136};
  double value = roundTo(tensorFormat, read<float>(slots, i.operands[1]), i.rounding);
  slots[i.operands[0]] = bitsOf(limited(i, value), Type::F32, Rounding::Nearest);
}

/// Clamped to the integer's range; NaN as the PTX manual's section on cvt says.
template <Type from, typename T> void formatToInteger(const Instruction &i, uint64_t *slots) {
  double value = readAny(i, slots, i.operands[1], from);
  if (i.flush && from == Type::F32)
    value = flushed(value);
  constexpr bool wide = from == Type::F64 || sizeof(T) == 8;
  T result;
  value = toInteger(value, i.rounding);
  if (std::isnan(value))
    result = wide ? static_cast<T>(std::make_unsigned_t<T>(1) << (8 * sizeof(T) - 1)) : 0;
  else if (value < static_cast<double>(std::numeric_limits<T>::min()))
    result = std::numeric_limits<T>::min();
  else if (value >= std::ldexp(1.0, std::numeric_limits<T>::digits))
    result = std::numeric_limits<T>::max();
  else
    result = static_cast<T>(value);
  write<T>(slots, i.operands[0], result);
}

/// The integer as a double that rounds to fewer bits as the integer itself does: exact up to 53 bits, else with a last
/// bit that says whether something was lost.
template <typename T> double toDoubleOdd(T value) {
  bool negative = std::is_signed_v<T> && value < T(0);
  auto size = negative ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int lost = std::max(static_cast<int>(std::bit_width(size)) - 53, 0);
  uint64_t kept = size >> lost;
  if (kept << lost != size)
    kept |= 1;
  double result = std::ldexp(static_cast<double>(kept), lost);
  return negative ? -result : result;
}

template <typename T, Type to> void integerToFormat(const Instruction &i, uint64_t *slots) {
  T value = read<T>(slots, i.operands[1]);
  if constexpr (to == Type::F64) {
    double result = static_cast<double>(value);
    if (i.rounding != Rounding::Nearest && sizeof(T) == 8) {
      static constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
      std::fesetround(modes[static_cast<int>(i.rounding)]);
      volatile T inside = value;
      volatile double rounded = static_cast<double>(inside);
      std::fesetround(FE_TONEAREST);
      result = rounded;
    }
    write(slots, i.operands[0], limited(i, result));
  } else {
    slots[i.operands[0]] = bitsOf(limited(i, toDoubleOdd(value)), to, i.rounding);
  }
}

template <typename From, typename To> void integerToInteger(const Instruction &i, uint64_t *slots) {
  From value = read<From>(slots, i.operands[1]);
  if (i.saturate) {
    using Limits = std::numeric_limits<To>;
    __int128 exact = value;
    exact = std::min<__int128>(std::max<__int128>(exact, Limits::min()), Limits::max());
    return write<To>(slots, i.operands[0], static_cast<To>(exact));
  }
  write<To>(slots, i.operands[0], static_cast<To>(value));
}

template <typename Use> Compute withFormat(Type type, Use use) {
  switch (type) {
  case Type::F16:
    return use(std::integral_constant<Type, Type::F16>());
  case Type::BF16:
    return use(std::integral_constant<Type, Type::BF16>());
  case Type::F32:
    return use(std::integral_constant<Type, Type::F32>());
  case Type::F64:
    return use(std::integral_constant<Type, Type::F64>());
  default:
    return nullptr;
  }
}

Compute functionOf(Type from, Type to) {
  if (isFloat(from) && isFloat(to))
    return withFormat(from, [&](auto f) {
      return withFormat(to, [&](auto t) -> Compute { return formatToFormat<f.value, t.value>; });
    });
  if (isFloat(from))
    return withFormat(from, [&](auto f) {
      return withInteger(to, [&](auto t) -> Compute {
        if constexpr (std::is_same_v<decltype(t), bool>)
          return nullptr;
        else
          return formatToInteger<f.value, decltype(t)>;
      });
    });
  return withInteger(from, [&](auto f) -> Compute {
    using From = decltype(f);
    if (isFloat(to))
      return withFormat(to, [](auto t) -> Compute { return integerToFormat<From, t.value>; });
    return withInteger(to, [](auto t) -> Compute { return together<integerToInteger<From, decltype(t)>>(); });
  });
}

void decodeConversion(Statement &s) {
  int integerRounding = s.takeOneOf({"rni", "rzi", "rmi", "rpi"}, 4);
  s.instruction.rounding = integerRounding < 4 ? static_cast<Rounding>(integerRounding)
                           : s.take("rna")     ? Rounding::NearestAway
                                               : s.takeRounding();
  s.instruction.kind = integerRounding < 4 ? ToInteger : 0;
  s.instruction.flush = s.take("ftz");
  s.instruction.saturate = s.take("sat");
  if (s.take("relu"))
    s.instruction.kind |= Relu;
  if (s.take("tf32")) {
    Type from = s.takeType();
    s.expectOperands(2);
    s.allOperands(from);
    s.instruction.compute = toTensorFloat;
    return s.emit();
  }
  Type to = s.takeType(), from = s.takeType();
  bool packs = to == Type::F16x2 || to == Type::BF16x2;
  s.expectOperands(packs ? 3 : 2);
  s.allOperands(from);
  s.instruction.compute = to == Type::F16x2    ? Compute(packTwo<Type::F16>)
                          : to == Type::BF16x2 ? Compute(packTwo<Type::BF16>)
                                               : functionOf(from, to);
  if (!s.instruction.compute || (packs && from != Type::F32))
    s.fail("this conversion is not known");
  s.emit();
}

} // namespace

void addConversionDecoders(DecoderTable &table) { table["cvt"] = decodeConversion; }

} // namespace cleave::ptx
