// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Formats.h"

#include <bit>
#include <cmath>
#include <limits>

namespace cleave::ptx {
namespace {

double roundToInteger(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Nearest:
    return std::nearbyint(value);
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  case Rounding::NearestAway:
    return std::round(value);
  }
  return value;
}

constexpr uint16_t notANumber = 0x7fff;

} // namespace

double roundTo(Format format, double value, Rounding rounding) {
  if (!std::isfinite(value) || value == 0)
    return value;
  int exponent = std::max(std::ilogb(value) + 1 - format.precision, format.lastExponent);
  double rounded = std::ldexp(roundToInteger(std::ldexp(value, -exponent), rounding), exponent);
  double largest = std::ldexp(2 - std::ldexp(1, 1 - format.precision), format.largestExponent);
  if (std::abs(rounded) <= largest)
    return std::copysign(rounded, value);
  bool towardsZero = rounding == Rounding::Zero || (rounding == Rounding::Down && value > 0) ||
                     (rounding == Rounding::Up && value < 0);
  return std::copysign(towardsZero ? largest : std::numeric_limits<double>::infinity(), value);
}

double sumToOdd(double a, double b) {
  double sum = a + b;
  if (!std::isfinite(sum))
    return sum;
  // What the sum lost, exactly (Knuth, The Art of Computer Programming, volume 2, section 4.2.2).
  double bPart = sum - a, error = (a - (sum - bPart)) + (b - bPart);
  if (error == 0 || (std::bit_cast<uint64_t>(sum) & 1))
    return sum;
  return std::nextafter(sum,
                        error > 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
}

double fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits >> 15) << 31, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 0)
    return (sign ? -1.0 : 1.0) * fraction * 0x1p-24;
  uint32_t wide = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
  return std::bit_cast<float>(wide);
}

uint16_t toHalf(double value, Rounding rounding) {
  if (std::isnan(value))
    return notANumber;
  double rounded = roundTo(halfFormat, value, rounding);
  auto sign = static_cast<uint16_t>(std::signbit(rounded) ? 0x8000 : 0);
  double size = std::abs(rounded);
  if (size < 0x1p-14)
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(size * 0x1p24));
  if (std::isinf(size))
    return sign | 0x7c00;
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(size));
  return static_cast<uint16_t>(sign | (((bits >> 23) - 112) << 10) | (bits >> 13 & 1023));
}

double fromBrain(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

uint16_t toBrain(double value, Rounding rounding) {
  if (std::isnan(value))
    return notANumber;
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(roundTo(brainFormat, value, rounding))) >>
                               16);
}

} // namespace cleave::ptx
