// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vectors as long as the processor's: compilers take longer ones apart into single numbers where they compare them.

#include "passes/planner/solver/LaneSum.h"

#include "passes/planner/solver/VectorTargets.h"

namespace cleave::solver {
namespace {

/// `width` neighbouring lanes.
template <size_t width> struct VectorOf {
  typedef double Type __attribute__((vector_size(width * sizeof(double)), aligned(sizeof(double)), may_alias));
};

/// All lanes of an index, the parts of which a processor works on at once.
template <size_t width> struct Lanes {
  using Vector = typename VectorOf<width>::Type;
  static constexpr size_t numParts = numLanes / width;
  Vector parts[numParts];

  CLEAVE_INLINE explicit Lanes(const double *numbers) {
#pragma GCC unroll 8
    for (size_t part = 0; part != numParts; ++part)
      parts[part] = *reinterpret_cast<const Vector *>(numbers + part * width);
  }
  CLEAVE_INLINE void add(const double *numbers) {
#pragma GCC unroll 8
    for (size_t part = 0; part != numParts; ++part)
      parts[part] += *reinterpret_cast<const Vector *>(numbers + part * width);
  }
  CLEAVE_INLINE void add(double number) {
#pragma GCC unroll 8
    for (size_t part = 0; part != numParts; ++part)
      parts[part] += number;
  }
  CLEAVE_INLINE void lower(double *numbers) const {
#pragma GCC unroll 8
    for (size_t part = 0; part != numParts; ++part) {
      Vector &to = *reinterpret_cast<Vector *>(numbers + part * width);
      to = parts[part] < to ? parts[part] : to;
    }
  }
};

/// `lane` rows with a number of each lane, and then `shared` ones.
template <size_t width, size_t lane, size_t shared>
CLEAVE_INLINE void lower(double *least, const double *base, const LaneRow *rows, size_t count) {
  Lanes<width> first(base);
  const double *numbers[lane + shared];
  for (size_t row = 0; row != lane + shared; ++row)
    numbers[row] = rows[row].numbers;
  for (size_t i = 0; i != count; ++i) {
    Lanes<width> sum = first;
#pragma GCC unroll 4
    for (size_t row = 0; row != lane; ++row)
      sum.add(numbers[row] + i * numLanes);
#pragma GCC unroll 4
    for (size_t row = lane; row != lane + shared; ++row)
      sum.add(numbers[row][i]);
    sum.lower(least + i * numLanes);
  }
}

template <size_t width>
CLEAVE_INLINE void lowerAny(double *least, const double *base, const LaneRow *rows, size_t numRows, size_t count) {
  for (size_t i = 0; i != count; ++i) {
    Lanes<width> sum(base);
    for (size_t row = 0; row != numRows; ++row)
      if (rows[row].isShared)
        sum.add(rows[row].numbers[i]);
      else
        sum.add(rows[row].numbers + i * numLanes);
    sum.lower(least + i * numLanes);
  }
}

template <size_t width>
CLEAVE_INLINE void lowerLanesBy(double *least, const double *base, const LaneRow *rows, size_t numRows, size_t count) {
  bool isFirstLane = numRows != 0 && !rows[0].isShared;
  size_t numShared = 0;
  for (size_t row = 0; row != numRows; ++row)
    numShared += rows[row].isShared;
  if (numRows == 1 && isFirstLane)
    return lower<width, 1, 0>(least, base, rows, count);
  if (numRows == 1)
    return lower<width, 0, 1>(least, base, rows, count);
  if (numRows == 2 && isFirstLane && numShared == 1)
    return lower<width, 1, 1>(least, base, rows, count);
  if (numRows == 2 && numShared == 2)
    return lower<width, 0, 2>(least, base, rows, count);
  if (numRows == 3 && isFirstLane && numShared == 2)
    return lower<width, 1, 2>(least, base, rows, count);
  return lowerAny<width>(least, base, rows, numRows, count);
}

} // namespace

#if CLEAVE_HAS_VECTOR_TARGETS
CLEAVE_FOR("avx512f")
void lowerLanes(double *least, const double *base, const LaneRow *rows, size_t numRows, size_t count) {
  lowerLanesBy<8>(least, base, rows, numRows, count);
}

CLEAVE_FOR("avx2")
void lowerLanes(double *least, const double *base, const LaneRow *rows, size_t numRows, size_t count) {
  lowerLanesBy<4>(least, base, rows, numRows, count);
}
#endif

CLEAVE_FOR("default")
void lowerLanes(double *least, const double *base, const LaneRow *rows, size_t numRows, size_t count) {
  lowerLanesBy<2>(least, base, rows, numRows, count);
}

} // namespace cleave::solver
