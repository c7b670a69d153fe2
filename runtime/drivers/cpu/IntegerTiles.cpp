// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops in intrinsics: 12 sums, two vectors of weights, four numbers of a row and ones fill AVX2's 16 registers.

#include "runtime/drivers/cpu/IntegerTiles.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <immintrin.h>

namespace cleave::runtime::integers {

bool hasTiles() { return __builtin_cpu_supports("avx2"); }

CLEAVE_AVX2 void copyPixels(const uint8_t *from, int64_t depth, int64_t count, const uint8_t *end, uint8_t *to) {
  int64_t padding = -depth & (stepNumbers - 1);
  if (padding == 0) {
    std::memcpy(to, from, static_cast<size_t>(depth * count));
    return;
  }
  int64_t pixel = 0;
  if (depth == 3) {
    // Four pixels at a time, of 16 bytes that are read; the last ones may be of what follows.
    const __m128i apart = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    for (; pixel < count && end - (from + pixel * depth) >= 16; pixel += 4) {
      __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + pixel * depth));
      _mm_storeu_si128(reinterpret_cast<__m128i *>(to + pixel * stepNumbers), _mm_shuffle_epi8(bytes, apart));
    }
  }
  for (; pixel < count; ++pixel) {
    uint8_t *own = to + pixel * (depth + padding);
    std::memcpy(own, from + pixel * depth, static_cast<size_t>(depth));
    std::memset(own + depth, 0, static_cast<size_t>(padding));
  }
}

namespace {

CLEAVE_AVX2 inline __m256i loadBytes(const int8_t *weights) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(weights));
}
CLEAVE_AVX2 inline __m256i load(const int8_t *weights) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(weights)));
}
CLEAVE_AVX2 inline __m256i loadNumbers(const uint8_t *numbers) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(numbers));
}
CLEAVE_AVX2 inline __m256i load(const uint8_t *numbers) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(numbers)));
}
CLEAVE_AVX2 inline void store(int32_t *sums, __m256i left, __m256i right) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums), left);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums + 8), right);
}

/// The sums of some rows, in registers.
template <int Rows> struct Sums {
  __m256i left[Rows], right[Rows];
};

/// The same four numbers of a row in all columns.
CLEAVE_AVX2 inline __m256i fourOf(const uint8_t *numbers) {
  int32_t four;
  std::memcpy(&four, numbers, sizeof four);
  return _mm256_set1_epi32(four);
}

/// Multiplies bytes and adds the products of two quads in 16 bits.
template <int Rows>
CLEAVE_AVX2 inline void multiplyTwofold(const uint8_t *rows, int64_t stride, const int8_t *panel,
                                        PanelSteps::Quads quads, Sums<Rows> &sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t quad : quads) {
    const int8_t *first = panel + quad * stepBytes, *second = first + stepBytes;
    const uint8_t *own = rows + quad * stepNumbers;
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      __m256i x = fourOf(own + row * stride), y = fourOf(own + row * stride + stepNumbers);
      auto products = [&](int64_t half) CLEAVE_AVX2 {
        __m256i both = _mm256_add_epi16(_mm256_maddubs_epi16(x, loadBytes(first + half)),
                                        _mm256_maddubs_epi16(y, loadBytes(second + half)));
        return _mm256_madd_epi16(both, ones);
      };
      sums.left[row] = _mm256_add_epi32(sums.left[row], products(0));
      sums.right[row] = _mm256_add_epi32(sums.right[row], products(stepBytes / 2));
    }
  }
}

/// Multiplies bytes and adds the products of one quad in 16 bits.
template <int Rows>
CLEAVE_AVX2 inline void multiplyNarrow(const uint8_t *rows, int64_t stride, const int8_t *panel,
                                       PanelSteps::Quads quads, Sums<Rows> &sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t quad : quads) {
    __m256i a = loadBytes(panel + quad * stepBytes), b = loadBytes(panel + quad * stepBytes + stepBytes / 2);
    const uint8_t *own = rows + quad * stepNumbers;
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      __m256i numbers = fourOf(own + row * stride);
      __m256i left = _mm256_madd_epi16(_mm256_maddubs_epi16(numbers, a), ones);
      __m256i right = _mm256_madd_epi16(_mm256_maddubs_epi16(numbers, b), ones);
      sums.left[row] = _mm256_add_epi32(sums.left[row], left);
      sums.right[row] = _mm256_add_epi32(sums.right[row], right);
    }
  }
}

/// Numbers of 16 bits: those at even places of bytes, and those at odd ones.
struct Halves {
  __m256i even, odd;
};
CLEAVE_AVX2 inline Halves halvesOf(__m256i weights) {
  return {_mm256_srai_epi16(_mm256_slli_epi16(weights, 8), 8), _mm256_srai_epi16(weights, 8)};
}
CLEAVE_AVX2 inline __m256i multiply(const Halves &numbers, const Halves &weights) {
  return _mm256_add_epi32(_mm256_madd_epi16(numbers.even, weights.even), _mm256_madd_epi16(numbers.odd, weights.odd));
}

/// Multiplies numbers of 16 bits.
template <int Rows>
CLEAVE_AVX2 inline void multiplyWide(const uint8_t *rows, int64_t stride, const int8_t *panel, PanelSteps::Quads quads,
                                     Sums<Rows> &sums) {
  const __m256i low = _mm256_set1_epi16(255);
  for (int64_t quad : quads) {
    Halves a = halvesOf(loadBytes(panel + quad * stepBytes)),
           b = halvesOf(loadBytes(panel + quad * stepBytes + stepBytes / 2));
    const uint8_t *own = rows + quad * stepNumbers;
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      __m256i four = fourOf(own + row * stride);
      Halves numbers{_mm256_and_si256(four, low), _mm256_srli_epi16(four, 8)};
      sums.left[row] = _mm256_add_epi32(sums.left[row], multiply(numbers, a));
      sums.right[row] = _mm256_add_epi32(sums.right[row], multiply(numbers, b));
    }
  }
}

/// The number of rows is known to the compiler, so that sums stay in registers.
template <int Rows>
CLEAVE_AVX2 void multiplySteps(const uint8_t *rows, int64_t stride, const int8_t *panel, const PanelSteps &steps,
                               int32_t *results) {
  Sums<Rows> sums;
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row)
    sums.left[row] = sums.right[row] = _mm256_setzero_si256();
  multiplyTwofold(rows, stride, panel, steps.twofold(), sums);
  multiplyNarrow(rows, stride, panel, steps.narrow(), sums);
  multiplyWide(rows, stride, panel, steps.wide(), sums);
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row)
    store(results + row * panelColumns, sums.left[row], sums.right[row]);
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

} // namespace

// Products of numbers up to `largest` fit in 16 bits together if their weights of one sign add up to at most 32767 /
// `largest`; one product always does. Four weights are never more than 512.
static constexpr std::array<int16_t, 256> limitByLargest = [] {
  std::array<int16_t, 256> limits{};
  for (int largest = 0; largest != 256; ++largest)
    limits[largest] = static_cast<int16_t>(std::min(INT16_MAX / std::max(largest, 1), 512));
  return limits;
}();

CLEAVE_AVX2 void PanelSteps::readRows(const uint8_t *rows, int64_t stride, int64_t count) {
  constexpr int64_t together = sizeof(__m256i) / stepNumbers;
  int64_t quad = 0;
  for (; quad + together <= quads; quad += together, rows += sizeof(__m256i)) {
    __m256i most = _mm256_setzero_si256();
    for (int64_t row = 0; row != count; ++row)
      most = _mm256_max_epu8(most, loadNumbers(rows + row * stride));
    // Of each four numbers the largest, in the last byte.
    most = _mm256_max_epu8(most, _mm256_srli_epi32(most, 8));
    most = _mm256_max_epu8(most, _mm256_srli_epi32(most, 16));
    alignas(32) std::array<uint8_t, sizeof(__m256i)> largest;
    _mm256_store_si256(reinterpret_cast<__m256i *>(largest.data()), most);
    for (int64_t i = 0; i != together; ++i)
      limits[quad + i] = limitByLargest[largest[i * stepNumbers]];
  }
  for (; quad != quads; ++quad, rows += stepNumbers) {
    __m128i most = _mm_setzero_si128();
    for (int64_t row = 0; row != count; ++row)
      most = _mm_max_epu8(most, _mm_loadu_si32(rows + row * stride));
    most = _mm_max_epu8(most, _mm_srli_epi32(most, 8));
    most = _mm_max_epu8(most, _mm_srli_epi32(most, 16));
    limits[quad] = limitByLargest[_mm_cvtsi128_si32(most) & 255];
  }
}

namespace {

/// Of two weights each, side by side: their sum, and that of their magnitudes.
struct PairSums {
  __m256i sum, magnitude;
};
CLEAVE_AVX2 inline PairSums pairSums(const int8_t *weights) {
  const __m256i ones = _mm256_set1_epi8(1);
  __m256i own = loadBytes(weights);
  return {_mm256_maddubs_epi16(ones, own), _mm256_maddubs_epi16(_mm256_abs_epi8(own), ones)};
}
CLEAVE_AVX2 inline PairSums operator+(const PairSums &a, const PairSums &b) {
  return {_mm256_add_epi16(a.sum, b.sum), _mm256_add_epi16(a.magnitude, b.magnitude)};
}
/// Twice the sum of the weights of one sign, of the sign for which it is larger.
CLEAVE_AVX2 inline __m256i ofOneSign(const PairSums &sums) {
  return _mm256_add_epi16(sums.magnitude, _mm256_abs_epi16(sums.sum));
}
/// Whether all are at most twice a limit.
CLEAVE_AVX2 inline int areWithin(__m256i left, __m256i right, int16_t limit) {
  __m256i beyond =
      _mm256_cmpgt_epi16(_mm256_max_epi16(left, right), _mm256_set1_epi16(static_cast<int16_t>(2 * limit)));
  return _mm256_testz_si256(beyond, beyond);
}

} // namespace

CLEAVE_AVX2 void PanelSteps::divide(const int8_t *panel) {
  numTwofold = numNarrow = numWide = 0;
  // A quad is written to the places of both kinds, which are free, without a branch, and counted as one of them, or
  // none.
  auto add = [&](int64_t quad, int isNarrow, int isWide) {
    singles[numNarrow] = singles[quads - 1 - numWide] = static_cast<int32_t>(quad);
    numNarrow += isNarrow;
    numWide += isWide;
  };
  int64_t quad = 0;
  for (; quad + 1 < quads; quad += 2, panel += 2 * stepBytes) {
    PairSums a = pairSums(panel), b = pairSums(panel + stepBytes / 2), c = pairSums(panel + stepBytes),
             d = pairSums(panel + stepBytes + stepBytes / 2);
    int isTwofold = areWithin(ofOneSign(a + c), ofOneSign(b + d), std::min(limits[quad], limits[quad + 1]));
    doubles[numTwofold] = static_cast<int32_t>(quad);
    numTwofold += isTwofold;
    int isFirst = areWithin(ofOneSign(a), ofOneSign(b), limits[quad]),
        isSecond = areWithin(ofOneSign(c), ofOneSign(d), limits[quad + 1]);
    add(quad, isFirst & ~isTwofold, ~isFirst & ~isTwofold & 1);
    add(quad + 1, isSecond & ~isTwofold, ~isSecond & ~isTwofold & 1);
  }
  if (quad != quads) {
    int isNarrow = areWithin(ofOneSign(pairSums(panel)), ofOneSign(pairSums(panel + stepBytes / 2)), limits[quad]);
    add(quad, isNarrow, 1 - isNarrow);
  }
}

void multiplyTile(const uint8_t *rows, int64_t stride, int64_t count, const int8_t *panel, const PanelSteps &steps,
                  int32_t *sums) {
  using Multiply = void (*)(const uint8_t *, int64_t, const int8_t *, const PanelSteps &, int32_t *);
  static constexpr Multiply byRows[tileRows] = {multiplySteps<1>, multiplySteps<2>, multiplySteps<3>,
                                                multiplySteps<4>, multiplySteps<5>, multiplySteps<6>};
  byRows[count - 1](rows, stride, panel, steps, sums);
}

void multiplyChannels(const uint8_t *const *taps, int64_t rows, int64_t count, int64_t from, const int8_t *weights,
                      int32_t *sums) {
  using Multiply = void (*)(const uint8_t *const *, int64_t, int64_t, const int8_t *, int32_t *);
  static constexpr Multiply byRows[tileRows] = {multiplyAlong<1>, multiplyAlong<2>, multiplyAlong<3>,
                                                multiplyAlong<4>, multiplyAlong<5>, multiplyAlong<6>};
  byRows[rows - 1](taps, count, from, weights, sums);
}

} // namespace cleave::runtime::integers
