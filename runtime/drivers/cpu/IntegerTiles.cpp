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

namespace {

/// The number of rows is known to the compiler, so that sums stay in registers.
template <int Rows>
CLEAVE_AVX2 void multiply(const int16_t *rows, int64_t stride, const int8_t *panel, int64_t pairs, int32_t *sums) {
  __m256i left[Rows], right[Rows];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row)
    left[row] = right[row] = _mm256_setzero_si256();
  for (int64_t pair = 0; pair < pairs; ++pair, rows += 2, panel += 2 * panelColumns) {
    __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(panel)));
    __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(panel + panelColumns)));
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
  for (int row = 0; row < Rows; ++row) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums + row * panelColumns), left[row]);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums + row * panelColumns + 8), right[row]);
  }
}

using Multiply = void (*)(const int16_t *, int64_t, const int8_t *, int64_t, int32_t *);
constexpr Multiply byRows[tileRows] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>, multiply<5>, multiply<6>};

} // namespace

void multiplyTile(const int16_t *rows, int64_t stride, int64_t count, const int8_t *panel, int64_t pairs,
                  int32_t *sums) {
  byRows[count - 1](rows, stride, panel, pairs, sums);
}

CLEAVE_AVX2 void multiplyChannels(const uint8_t *const *taps, int64_t count, const int8_t *weights, int32_t *sums) {
  // Of each half of a register the first four channels, and the last four.
  __m256i first = _mm256_setzero_si256(), last = first;
  for (int64_t tap = 0; tap < count; tap += 2) {
    bool isPair = tap + 1 < count;
    auto load = [](const void *from) CLEAVE_AVX2 { return _mm_loadu_si128(static_cast<const __m128i *>(from)); };
    __m256i a = _mm256_cvtepu8_epi16(load(taps[tap]));
    __m256i b = isPair ? _mm256_cvtepu8_epi16(load(taps[tap + 1])) : _mm256_setzero_si256();
    __m256i v = _mm256_cvtepi8_epi16(load(weights + tap * panelColumns));
    __m256i w = isPair ? _mm256_cvtepi8_epi16(load(weights + (tap + 1) * panelColumns)) : _mm256_setzero_si256();
    first =
        _mm256_add_epi32(first, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), _mm256_unpacklo_epi16(v, w)));
    last = _mm256_add_epi32(last, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), _mm256_unpackhi_epi16(v, w)));
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums), _mm256_permute2x128_si256(first, last, 0x20));
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums + 8), _mm256_permute2x128_si256(first, last, 0x31));
}

} // namespace cleave::runtime::integers
