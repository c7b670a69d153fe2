// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floating-point arithmetic. f32 and f64 are the host's, in the direction of rounding that the instruction says; the
// formats of 16 bits are computed in double and rounded once. This file is compiled with -frounding-math.

#include "Formats.h"
#include "Statement.h"
#include "Values.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>

namespace cleave::ptx {
namespace {

using Compute = Instruction::Compute;

/// Of `kind`: NaN wins in min and max; negative results are zero.
enum : uint8_t { NaNWins = 1, Relu = 2 };

template <typename T> T flushed(T value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(T(0), value) : value;
}

// Operations on the sources v; those named Odd are of 16 bits and computed in double, which is rounded to odd.
struct Add {
  template <typename T> static T apply(const Instruction &, const T *v) { return v[0] + v[1]; }
};
struct Subtract {
  template <typename T> static T apply(const Instruction &, const T *v) { return v[0] - v[1]; }
};
struct Multiply {
  template <typename T> static T apply(const Instruction &, const T *v) { return v[0] * v[1]; }
};
struct Divide {
  template <typename T> static T apply(const Instruction &, const T *v) { return v[0] / v[1]; }
};
struct MultiplyAdd {
  template <typename T> static T apply(const Instruction &, const T *v) { return std::fma(v[0], v[1], v[2]); }
};
struct SquareRoot {
  template <typename T> static T apply(const Instruction &, const T *v) { return std::sqrt(v[0]); }
};
struct Reciprocal {
  template <typename T> static T apply(const Instruction &, const T *v) { return T(1) / v[0]; }
};
struct OddAdd {
  static double apply(const Instruction &, const double *v) { return sumToOdd(v[0], v[1]); }
};
struct OddSubtract {
  static double apply(const Instruction &, const double *v) { return sumToOdd(v[0], -v[1]); }
};
struct OddMultiplyAdd {
  static double apply(const Instruction &, const double *v) { return sumToOdd(v[0] * v[1], v[2]); }
};

/// Of a number and NaN the number, unless the instruction says otherwise; -0 is less than +0.
template <bool less> struct Extreme {
  template <typename T> static T apply(const Instruction &i, const T *v) {
    if (std::isnan(v[0]) || std::isnan(v[1])) {
      if (i.kind & NaNWins)
        return std::numeric_limits<T>::quiet_NaN();
      return std::isnan(v[0]) ? v[1] : v[0];
    }
    if (v[0] == v[1])
      return std::signbit(v[0]) == less ? v[0] : v[1];
    return (v[0] < v[1]) == less ? v[0] : v[1];
  }
};

// Approximations are computed in double, and rounded to the result's type.
struct ApproximateDivide {
  static double apply(const double *v) { return v[0] / v[1]; }
};
struct ApproximateReciprocal {
  static double apply(const double *v) { return 1 / v[0]; }
};
struct ApproximateSquareRoot {
  static double apply(const double *v) { return std::sqrt(v[0]); }
};
struct ReciprocalSquareRoot {
  static double apply(const double *v) { return 1 / std::sqrt(v[0]); }
};
struct Sine {
  static double apply(const double *v) { return std::sin(v[0]); }
};
struct Cosine {
  static double apply(const double *v) { return std::cos(v[0]); }
};
struct Logarithm {
  static double apply(const double *v) { return std::log2(v[0]); }
};
struct Exponential {
  static double apply(const double *v) { return std::exp2(v[0]); }
};
struct Tangent {
  static double apply(const double *v) { return std::tanh(v[0]); }
};

template <typename T> T finished(const Instruction &i, T result) {
  if (i.flush)
    result = flushed(result);
  if (i.saturate)
    result = std::isnan(result) ? T(0) : std::clamp(result, T(0), T(1));
  return result;
}

void writeResult(uint64_t *slots, Slot slot, double value) { write(slots, slot, value); }
void writeResult(uint64_t *slots, Slot slot, float value) {
  slots[slot] = std::isnan(value) ? 0x7fffffff : std::bit_cast<uint32_t>(value);
}

/// Volatile values keep the arithmetic between the changes of direction.
template <typename Operation, typename T, int sources> T directed(const Instruction &i, const T *given) {
  static constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  volatile T outside[3] = {};
  for (int k = 0; k != sources; ++k)
    outside[k] = given[k];
  std::fesetround(modes[static_cast<int>(i.rounding)]);
  T inside[3];
  for (int k = 0; k != sources; ++k)
    inside[k] = outside[k];
  volatile T result = Operation::apply(i, inside);
  std::fesetround(FE_TONEAREST);
  return result;
}

template <typename Operation, typename T, int sources> void arithmetic(const Instruction &i, uint64_t *slots) {
  T v[sources];
  for (int k = 0; k != sources; ++k) {
    v[k] = read<T>(slots, i.operands[k + 1]);
    if (i.flush)
      v[k] = flushed(v[k]);
  }
  T result = i.rounding == Rounding::Nearest ? Operation::apply(i, v) : directed<Operation, T, sources>(i, v);
  writeResult(slots, i.operands[0], finished(i, result));
}

template <typename Operation, typename T, int sources> void approximation(const Instruction &i, uint64_t *slots) {
  double v[sources];
  for (int k = 0; k != sources; ++k) {
    T value = read<T>(slots, i.operands[k + 1]);
    v[k] = i.flush ? flushed(value) : value;
  }
  writeResult(slots, i.operands[0], finished(i, static_cast<T>(Operation::apply(v))));
}

/// The approximations of f64 know and give the high 32 bits alone.
template <typename Operation> void highWord(const Instruction &i, uint64_t *slots) {
  constexpr uint64_t high = ~uint64_t(0) << 32;
  double v[2] = {flushed(std::bit_cast<double>(slots[i.operands[1]] & high))};
  slots[i.operands[0]] = std::bit_cast<uint64_t>(flushed(Operation::apply(v))) & high;
}

/// One or two elements of 16 bits; `brain` tells bf16 from f16.
template <typename Operation, bool brain, int sources, int elements>
void narrowArithmetic(const Instruction &i, uint64_t *slots) {
  uint32_t result = 0;
  for (int element = 0; element != elements; ++element) {
    double v[sources];
    for (int k = 0; k != sources; ++k) {
      auto bits = static_cast<uint16_t>(slots[i.operands[k + 1]] >> (16 * element));
      if (i.flush && !brain && (bits & 0x7c00) == 0)
        bits &= 0x8000;
      v[k] = brain ? fromBrain(bits) : fromHalf(bits);
    }
    double exact;
    if constexpr (requires { Operation::apply(i, v); })
      exact = Operation::apply(i, v);
    else
      exact = Operation::apply(v);
    if (i.saturate)
      exact = std::isnan(exact) ? 0 : std::clamp(exact, 0.0, 1.0);
    if ((i.kind & Relu) && exact < 0)
      exact = 0;
    uint16_t bits = brain ? toBrain(exact, i.rounding) : toHalf(exact, i.rounding);
    if (i.flush && !brain && (bits & 0x7c00) == 0)
      bits &= 0x8000;
    result |= uint32_t(bits) << (16 * element);
  }
  slots[i.operands[0]] = result;
}

/// Whether f32 needs nothing but the host's arithmetic: most do.
bool isPlain(const Instruction &i) { return i.rounding == Rounding::Nearest && !i.flush && !i.saturate; }
template <typename Operation, int sources> void plain(const Instruction &i, uint64_t *slots) {
  float v[sources];
  for (int k = 0; k != sources; ++k)
    v[k] = read<float>(slots, i.operands[k + 1]);
  writeResult(slots, i.operands[0], Operation::apply(i, v));
}

/// The function for `type`: with `Exact` of f32 and f64, with `Odd` of the formats of 16 bits.
template <typename Exact, typename Odd, int sources> Compute exactly(const Statement &s, Type type) {
  switch (type) {
  case Type::F32:
    return isPlain(s.instruction) ? together<plain<Exact, sources>>() : together<arithmetic<Exact, float, sources>>();
  case Type::F64:
    return arithmetic<Exact, double, sources>;
  case Type::F16:
    return narrowArithmetic<Odd, false, sources, 1>;
  case Type::F16x2:
    return narrowArithmetic<Odd, false, sources, 2>;
  case Type::BF16:
    return narrowArithmetic<Odd, true, sources, 1>;
  case Type::BF16x2:
    return narrowArithmetic<Odd, true, sources, 2>;
  default:
    return nullptr;
  }
}

template <typename Operation, int sources = 1> Compute approximately(Type type) {
  switch (type) {
  case Type::F32:
    return together<approximation<Operation, float, sources>>();
  case Type::F64:
    return highWord<Operation>;
  case Type::F16:
    return narrowArithmetic<Operation, false, sources, 1>;
  case Type::F16x2:
    return narrowArithmetic<Operation, false, sources, 2>;
  case Type::BF16:
    return narrowArithmetic<Operation, true, sources, 1>;
  case Type::BF16x2:
    return narrowArithmetic<Operation, true, sources, 2>;
  default:
    return nullptr;
  }
}

/// Those of f32 and f64 only.
template <typename Operation, int sources> Compute wideOnly(const Statement &s, Type type) {
  if (type == Type::F32)
    return isPlain(s.instruction) ? together<plain<Operation, sources>>()
                                  : together<arithmetic<Operation, float, sources>>();
  return type == Type::F64 ? arithmetic<Operation, double, sources> : nullptr;
}

/// neg, abs and copysign work on the sign's bit; kind: 0 flips it, 1 clears it.
template <Type type> void changeSign(const Instruction &i, uint64_t *slots) {
  constexpr uint64_t signs = type == Type::F64                             ? uint64_t(1) << 63
                             : type == Type::F32                           ? 0x80000000
                             : type == Type::F16x2 || type == Type::BF16x2 ? 0x80008000
                                                                           : 0x8000;
  uint64_t value = slots[i.operands[1]];
  if (i.flush && type == Type::F32)
    value = std::bit_cast<uint32_t>(flushed(read<float>(slots, i.operands[1])));
  slots[i.operands[0]] = i.kind == 0 ? value ^ signs : value & ~signs;
}

Compute changeSignOf(Type type) {
  switch (type) {
  case Type::F64:
    return changeSign<Type::F64>;
  case Type::F32:
    return together<changeSign<Type::F32>>();
  case Type::F16x2:
  case Type::BF16x2:
    return changeSign<Type::F16x2>;
  default:
    return changeSign<Type::F16>;
  }
}

/// The sign of the first source on the second.
template <typename T> void copySign(const Instruction &i, uint64_t *slots) {
  constexpr T sign = T(1) << (8 * sizeof(T) - 1);
  write<T>(slots, i.operands[0],
           (read<T>(slots, i.operands[1]) & sign) | (read<T>(slots, i.operands[2]) & static_cast<T>(~sign)));
}

template <typename T> void testProperty(const Instruction &i, uint64_t *slots) {
  T value = read<T>(slots, i.operands[1]);
  int kind = std::fpclassify(value);
  const bool answers[] = {std::isfinite(value), kind == FP_INFINITE, kind != FP_NAN,
                          kind == FP_NAN,       kind == FP_NORMAL,   kind == FP_SUBNORMAL};
  write<bool>(slots, i.operands[0], answers[i.kind]);
}

void decodeTestProperty(Statement &s) {
  s.instruction.kind =
      static_cast<uint8_t>(s.takeOneOf({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}));
  Type type = s.takeType();
  s.expectOperands(2);
  s.allOperands(type);
  s.instruction.compute = type == Type::F64 ? testProperty<double> : testProperty<float>;
  s.emit();
}

void decodeCopySign(Statement &s) {
  Type type = s.takeType();
  s.expectOperands(3);
  s.allOperands(type);
  s.instruction.compute = type == Type::F64 ? copySign<uint64_t> : copySign<uint32_t>;
  s.emit();
}

Compute approximateFunctionOf(Statement &s, Type type) {
  if (s.name == "div")
    return type == Type::F32 ? approximately<ApproximateDivide, 2>(type) : nullptr;
  if (s.name == "rcp")
    return approximately<ApproximateReciprocal>(type);
  if (s.name == "sqrt")
    return approximately<ApproximateSquareRoot>(type);
  if (s.name == "rsqrt")
    return approximately<ReciprocalSquareRoot>(type);
  if (s.name == "sin")
    return approximately<Sine>(type);
  if (s.name == "cos")
    return approximately<Cosine>(type);
  if (s.name == "lg2")
    return approximately<Logarithm>(type);
  if (s.name == "ex2")
    return approximately<Exponential>(type);
  if (s.name == "tanh")
    return approximately<Tangent>(type);
  return nullptr;
}

Compute functionOf(Statement &s, Type type) {
  if (s.name == "add")
    return exactly<Add, OddAdd, 2>(s, type);
  if (s.name == "sub")
    return exactly<Subtract, OddSubtract, 2>(s, type);
  if (s.name == "mul")
    return exactly<Multiply, Multiply, 2>(s, type);
  if (s.name == "fma" || s.name == "mad")
    return exactly<MultiplyAdd, OddMultiplyAdd, 3>(s, type);
  if (s.name == "min")
    return exactly<Extreme<true>, Extreme<true>, 2>(s, type);
  if (s.name == "max")
    return exactly<Extreme<false>, Extreme<false>, 2>(s, type);
  if (s.name == "neg" || s.name == "abs")
    return changeSignOf(type);
  if (s.name == "div")
    return wideOnly<Divide, 2>(s, type);
  if (s.name == "rcp")
    return wideOnly<Reciprocal, 1>(s, type);
  if (s.name == "sqrt")
    return wideOnly<SquareRoot, 1>(s, type);
  return nullptr;
}

void decodeTyped(Statement &s) { decodeFloatArithmetic(s, s.takeType()); }

} // namespace

void decodeFloatArithmetic(Statement &s, Type type) {
  bool approximate = s.take("approx") || s.take("full");
  s.instruction.rounding = s.takeRounding();
  s.instruction.flush = s.take("ftz");
  s.instruction.saturate = s.take("sat");
  if (s.name == "min" || s.name == "max")
    s.instruction.kind = s.take("NaN") ? NaNWins : 0;
  else if (s.name == "fma")
    s.instruction.kind = s.take("relu") ? Relu : 0;
  else if (s.name == "abs")
    s.instruction.kind = 1;
  s.instruction.compute = approximate ? approximateFunctionOf(s, type) : functionOf(s, type);
  if (!s.instruction.compute)
    s.fail("'" + std::string(s.name) + "' is not known of this type");
  bool threeSources = s.name == "fma" || s.name == "mad";
  bool oneSource = s.name != "add" && s.name != "sub" && s.name != "mul" && s.name != "div" && s.name != "min" &&
                   s.name != "max" && !threeSources;
  s.expectOperands(threeSources ? 4 : oneSource ? 2 : 3);
  s.allOperands(type);
  s.emit();
}

void addFloatDecoders(DecoderTable &table) {
  for (std::string_view name : {"fma", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"})
    table[name] = decodeTyped;
  table["testp"] = decodeTestProperty;
  table["copysign"] = decodeCopySign;
}

} // namespace cleave::ptx
