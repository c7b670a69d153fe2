// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floating-point formats of 16 bits, and exact rounding to any format in any direction.

#ifndef CLEAVE_TEST_PTX_FORMATS_H
#define CLEAVE_TEST_PTX_FORMATS_H

#include "Program.h"

namespace cleave::ptx {

/// A binary format no wider than double: bits of the significand, and the exponents of the largest power of two and of
/// the last bit of subnormal numbers.
struct Format {
  int precision, largestExponent, lastExponent;
};
constexpr Format halfFormat{11, 15, -24}, brainFormat{8, 127, -133}, singleFormat{24, 127, -149},
    doubleFormat{53, 1023, -1074};

/// `value` rounded to `format`; beyond its range infinity or the largest number, as the direction has it.
double roundTo(Format format, double value, Rounding rounding);

/// The exact sum, rounded to odd: rounding that to at most 51 bits is as good as rounding the exact sum.
double sumToOdd(double a, double b);

/// f16 and bf16 as numbers, and `value` rounded to them. Every NaN becomes 0x7fff.
double fromHalf(uint16_t bits);
uint16_t toHalf(double value, Rounding rounding = Rounding::Nearest);
double fromBrain(uint16_t bits);
uint16_t toBrain(double value, Rounding rounding = Rounding::Nearest);

} // namespace cleave::ptx

#endif
