// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops for the vectorizer: up to three rows at once, further ones summed in blocks before.

#include "passes/planner/solver/MinSum.h"

#include "passes/planner/solver/VectorTargets.h"

#include <algorithm>

namespace cleave::solver {
namespace {

constexpr size_t blockSize = 256;

CLEAVE_INLINE void lower(double *__restrict least, double base, const double *__restrict a, size_t count) {
  for (size_t i = 0; i != count; ++i) {
    double sum = base + a[i];
    least[i] = sum < least[i] ? sum : least[i];
  }
}

CLEAVE_INLINE void lower(double *__restrict least, double base, const double *__restrict a, const double *__restrict b,
                         size_t count) {
  for (size_t i = 0; i != count; ++i) {
    double sum = base + a[i] + b[i];
    least[i] = sum < least[i] ? sum : least[i];
  }
}

CLEAVE_INLINE void lower(double *__restrict least, double base, const double *__restrict a, const double *__restrict b,
                         const double *__restrict c, size_t count) {
  for (size_t i = 0; i != count; ++i) {
    double sum = base + a[i] + b[i] + c[i];
    least[i] = sum < least[i] ? sum : least[i];
  }
}

CLEAVE_INLINE void lowerInBlocks(double *least, double base, const double *const *rows, size_t numRows, size_t count) {
  double sums[blockSize];
  for (size_t begin = 0; begin < count; begin += blockSize) {
    size_t size = std::min(blockSize, count - begin);
    std::fill(sums, sums + size, base);
    for (size_t row = 0; row != numRows; ++row)
      for (size_t i = 0; i != size; ++i)
        sums[i] += rows[row][begin + i];
    for (size_t i = 0; i != size; ++i)
      least[begin + i] = sums[i] < least[begin + i] ? sums[i] : least[begin + i];
  }
}

} // namespace

CLEAVE_FOR_EACH
void lowerToSum(double *least, double base, const double *const *rows, size_t numRows, size_t count) {
  switch (numRows) {
  case 1:
    return lower(least, base, rows[0], count);
  case 2:
    return lower(least, base, rows[0], rows[1], count);
  case 3:
    return lower(least, base, rows[0], rows[1], rows[2], count);
  default:
    return lowerInBlocks(least, base, rows, numRows, count);
  }
}

} // namespace cleave::solver
