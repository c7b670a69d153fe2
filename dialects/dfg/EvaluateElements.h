// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic on single elements with the meaning that the dialect gives it: integers wrap, divisions by zero give 0,
// NaN goes through minima and maxima, conversions saturate.

#ifndef CLEAVE_DIALECTS_DFG_EVALUATEELEMENTS_H
#define CLEAVE_DIALECTS_DFG_EVALUATEELEMENTS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace cleave::dfg {

/// Arithmetic on T: float, double, or an integer.
template <typename T, bool isFloat = std::is_floating_point_v<T>> struct Element;

template <typename T> struct Element<T, true> {
  static T negate(T a) { return -a; }
  static T absolute(T a) { return std::fabs(a); }
  static T add(T a, T b) { return a + b; }
  static T subtract(T a, T b) { return a - b; }
  static T multiply(T a, T b) { return a * b; }
  static T divide(T a, T b) { return a / b; }
  static T power(T a, T b) { return std::pow(a, b); }
  static T larger(T a, T b) { return a != a ? a : b != b ? b : a < b ? b : a; }
  static T smaller(T a, T b) { return a != a ? a : b != b ? b : b < a ? b : a; }
  static T remainder(T a, T b) { return std::fmod(a, b); }
  static T modulo(T a, T b) {
    T rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};

template <typename T> struct Element<T, false> {
  using U = std::make_unsigned_t<T>;
  static T wrap(uint64_t value) { return static_cast<T>(static_cast<U>(value)); }
  static T negate(T a) { return wrap(uint64_t(0) - static_cast<uint64_t>(a)); }
  static bool isMinusOne(T a) { return std::is_signed_v<T> && a == static_cast<T>(-1); }
  static bool isNegative(T a) { return std::is_signed_v<T> && a < T(0); }
  static T absolute(T a) { return isNegative(a) ? negate(a) : a; }
  static T add(T a, T b) { return wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
  static T subtract(T a, T b) { return wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); }
  static T multiply(T a, T b) { return wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
  static T divide(T a, T b) { return b == 0 ? T(0) : isMinusOne(b) ? negate(a) : static_cast<T>(a / b); }
  static T larger(T a, T b) { return std::max(a, b); }
  static T smaller(T a, T b) { return std::min(a, b); }
  static T remainder(T a, T b) { return b == 0 || isMinusOne(b) ? T(0) : static_cast<T>(a % b); }
  static T modulo(T a, T b) {
    T rest = remainder(a, b);
    return rest != 0 && isNegative(rest) != isNegative(b) ? static_cast<T>(rest + b) : rest;
  }
  static T power(T base, T exponent) {
    if (isNegative(exponent))
      return base == 1 ? T(1) : isMinusOne(base) ? (exponent % 2 ? T(-1) : T(1)) : T(0);
    uint64_t result = 1, factor = static_cast<uint64_t>(base);
    for (uint64_t rest = static_cast<uint64_t>(exponent); rest; rest >>= 1, factor *= factor)
      if (rest & 1)
        result *= factor;
    return wrap(result);
  }
  static T shiftLeft(T a, T count) {
    return shiftsOut(count) ? T(0) : wrap(static_cast<uint64_t>(a) << static_cast<unsigned>(count));
  }
  static T shiftRight(T a, T count) {
    if (shiftsOut(count))
      return isNegative(a) ? static_cast<T>(-1) : T(0);
    return static_cast<T>(a >> static_cast<unsigned>(count));
  }
  static bool shiftsOut(T count) { return static_cast<U>(count) >= 8 * sizeof(T); }
};

/// `value` as a To: floats to integers truncate towards zero and saturate, NaN becomes 0; to bool, zero is false and
/// all else true; integers narrow by dropping high bits.
template <typename To, typename From> To convertElement(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (value != value)
      return To(0);
    // The first number above the type's: a power of two, which a double holds.
    constexpr double bound = 2.0 * static_cast<double>(std::numeric_limits<To>::max() / 2 + 1);
    if (static_cast<double>(value) >= bound)
      return std::numeric_limits<To>::max();
    if (static_cast<double>(value) < static_cast<double>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_EVALUATEELEMENTS_H
