// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops in intrinsics: 12 sums, two vectors of weights and one pair of numbers fill AVX2's 16 registers.

#include "runtime/drivers/cpu/IntegerTiles.h"

#include <cstring>
#include <immintrin.h>

namespace cleave::runtime::integers {

bool hasTiles() { return __builtin_cpu_supports("avx2"); }

CLEAVE_AVX2 void widen(const uint8_t *from, int64_t step, int64_t count, int16_t *to) {
  int64_t i = 0;
  if (step == 1) {
    for (; i + 16 <= count; i += 16)
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + i),
                          _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i))));
    if (i + 8 <= count) {
      _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i),
                       _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from + i))));
      i += 8;
    }
  }
  for (; i != count; ++i)
    to[i] = from[i * step];
}

CLEAVE_AVX2 void widenPixels(const uint8_t *from, int64_t depth, int64_t count, const uint8_t *end, int16_t *to) {
  if (depth % 2 == 0)
    return widen(from, 1, depth * count, to);
  int64_t pixel = 0;
  if (depth == 3) {
    // Four pixels at a time, of 16 bytes that are read; the last ones may be of what follows.
    const __m128i apart = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    for (; pixel < count && end - (from + pixel * depth) >= 16; pixel += 4) {
      __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + pixel * depth));
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + pixel * 4),
                          _mm256_cvtepu8_epi16(_mm_shuffle_epi8(bytes, apart)));
    }
  }
  for (; pixel < count; ++pixel) {
    widen(from + pixel * depth, 1, depth, to + pixel * (depth + 1));
    to[pixel * (depth + 1) + depth] = 0;
  }
}

CLEAVE_AVX2 void widenPanel(const int8_t *panel, int64_t pairs, int16_t *to) {
  for (int64_t i = 0; i != 2 * pairs * panelColumns; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + i),
                        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(panel + i))));
}

namespace {

CLEAVE_AVX2 inline __m256i load(const int16_t *weights) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(weights));
}
CLEAVE_AVX2 inline __m256i load(const int8_t *weights) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(weights)));
}
CLEAVE_AVX2 inline __m256i load(const uint8_t *numbers) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(numbers)));
}
CLEAVE_AVX2 inline void store(int32_t *sums, __m256i left, __m256i right) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums), left);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums + 8), right);
}

/// The number of rows is known to the compiler, so that sums stay in registers.
template <int Rows, typename Weight>
CLEAVE_AVX2 void multiply(const int16_t *rows, int64_t stride, const Weight *panel, int64_t pairs, int32_t *sums) {
  __m256i left[Rows], right[Rows];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row)
    left[row] = right[row] = _mm256_setzero_si256();
  for (int64_t pair = 0; pair < pairs; ++pair, rows += 2, panel += 2 * panelColumns) {
    __m256i a = load(panel), b = load(panel + panelColumns);
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      int32_t both;
      std::memcpy(&both, rows + row * stride, sizeof both);
      __m256i numbers = _mm256_set1_epi32(both);
      left[row] = _mm256_add_epi32(left[row], _mm256_madd_epi16(numbers, a));
      right[row] = _mm256_add_epi32(right[row], _mm256_madd_epi16(numbers, b));
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row)
    store(sums + row * panelColumns, left[row], right[row]);
}

/// By channels, of two taps at a time.
template <int Rows>
CLEAVE_AVX2 void multiplyAlong(const uint8_t *const *taps, int64_t count, int64_t from, const int8_t *weights,
                               int32_t *sums) {
  // Of each half of a register the first four channels, and the last four.
  __m256i first[Rows], last[Rows];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row)
    first[row] = last[row] = _mm256_setzero_si256();
  for (int64_t tap = 0; tap < count; tap += 2) {
    // Behind an odd last tap: itself, times nothing.
    bool isPair = tap + 1 < count;
    __m256i a = load(weights + tap * panelColumns);
    __m256i b = isPair ? load(weights + (tap + 1) * panelColumns) : _mm256_setzero_si256();
    __m256i low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      const uint8_t *const *own = taps + row * count + tap;
      __m256i x = load(own[0] + from), y = load(own[isPair] + from);
      first[row] = _mm256_add_epi32(first[row], _mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), low));
      last[row] = _mm256_add_epi32(last[row], _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), high));
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row)
    store(sums + row * panelColumns, _mm256_permute2x128_si256(first[row], last[row], 0x20),
          _mm256_permute2x128_si256(first[row], last[row], 0x31));
}

template <typename Weight>
void multiplyRows(const int16_t *rows, int64_t stride, int64_t count, const Weight *panel, int64_t pairs,
                  int32_t *sums) {
  using Multiply = void (*)(const int16_t *, int64_t, const Weight *, int64_t, int32_t *);
  static constexpr Multiply byRows[tileRows] = {multiply<1, Weight>, multiply<2, Weight>, multiply<3, Weight>,
                                                multiply<4, Weight>, multiply<5, Weight>, multiply<6, Weight>};
  byRows[count - 1](rows, stride, panel, pairs, sums);
}

} // namespace

void multiplyTile(const int16_t *rows, int64_t stride, int64_t count, const int8_t *panel, int64_t pairs,
                  int32_t *sums) {
  multiplyRows(rows, stride, count, panel, pairs, sums);
}

void multiplyTile(const int16_t *rows, int64_t stride, int64_t count, const int16_t *panel, int64_t pairs,
                  int32_t *sums) {
  multiplyRows(rows, stride, count, panel, pairs, sums);
}

void multiplyChannels(const uint8_t *const *taps, int64_t rows, int64_t count, int64_t from, const int8_t *weights,
                      int32_t *sums) {
  using Multiply = void (*)(const uint8_t *const *, int64_t, int64_t, const int8_t *, int32_t *);
  static constexpr Multiply byRows[tileRows] = {multiplyAlong<1>, multiplyAlong<2>, multiplyAlong<3>,
                                                multiplyAlong<4>, multiplyAlong<5>, multiplyAlong<6>};
  byRows[rows - 1](taps, count, from, weights, sums);
}

} // namespace cleave::runtime::integers
