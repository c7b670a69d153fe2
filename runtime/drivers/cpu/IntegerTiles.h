// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of products of unsigned by signed integers of 8 bits with AVX2, exact: both are widened to 16 bits, of which
// the processor adds the products of two pairs to 32 bits at once. Half as many numbers an instruction as where it
// multiplies bytes, but those sums saturate at 16 bits.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERTILES_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERTILES_H

#include <cstdint>

/// Of a function that is compiled for AVX2, whatever the others of its file are compiled for.
#define CLEAVE_AVX2 __attribute__((target("avx2")))

namespace cleave::runtime::integers {

/// Rows of a tile, whose sums and operands fill the registers, and its columns: those of a panel of weights.
constexpr int64_t tileRows = 6, panelColumns = 16;

/// Whether this machine has the instructions.
bool hasTiles();

/// `to[i] = from[i * step]` for `count` numbers.
void widen(const uint8_t *from, int64_t step, int64_t count, int16_t *to);

/// The same of `count` pixels of `depth` numbers each, next to each other, of which an odd number is followed by a
/// zero. What lies in front of `end` may be read, and `mostBehind` numbers behind the last may be written.
void widenPixels(const uint8_t *from, int64_t depth, int64_t count, const uint8_t *end, int16_t *to);
constexpr int64_t mostBehind = 12;

/// The same of a panel of weights of `pairs` pairs.
void widenPanel(const int8_t *panel, int64_t pairs, int16_t *to);

/// sums[r * panelColumns + c] = the sum over k < 2 * `pairs` of rows[r * stride + k] * panel[k / 2][c][k % 2], for
/// 1 to tileRows rows. The panel may be widened.
void multiplyTile(const int16_t *rows, int64_t stride, int64_t count, const int8_t *panel, int64_t pairs,
                  int32_t *sums);
void multiplyTile(const int16_t *rows, int64_t stride, int64_t count, const int16_t *panel, int64_t pairs,
                  int32_t *sums);

/// sums[r * panelColumns + c] = the sum over t < `count` of taps[r * count + t][from + c] *
/// weights[t * panelColumns + c], for panelColumns channels of 1 to tileRows rows.
void multiplyChannels(const uint8_t *const *taps, int64_t rows, int64_t count, int64_t from, const int8_t *weights,
                      int32_t *sums);

} // namespace cleave::runtime::integers

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERTILES_H
