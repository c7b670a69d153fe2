// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A vector holds all lanes; processors with shorter ones take several.

#include "passes/planner/solver/LaneSum.h"

namespace cleave::solver {
namespace {

typedef double Lanes __attribute__((vector_size(numLanes * sizeof(double)), aligned(sizeof(double)), may_alias));

#define CLEAVE_INLINE [[gnu::always_inline]] inline

/// `lane` rows with a number of each lane, and then `shared` ones.
template <size_t lane, size_t shared>
CLEAVE_INLINE void lower(double *least, const double *base, const LaneRow *rows, size_t count) {
  Lanes first = *reinterpret_cast<const Lanes *>(base);
  for (size_t i = 0; i != count; ++i) {
    Lanes sum = first;
    for (size_t row = 0; row != lane; ++row)
      sum += *reinterpret_cast<const Lanes *>(rows[row].numbers + i * numLanes);
    for (size_t row = lane; row != lane + shared; ++row)
      sum += rows[row].numbers[i];
    Lanes &to = *reinterpret_cast<Lanes *>(least + i * numLanes);
    to = sum < to ? sum : to;
  }
}

CLEAVE_INLINE void lowerAny(double *least, const double *base, const LaneRow *rows, size_t numRows, size_t count) {
  for (size_t i = 0; i != count; ++i) {
    Lanes sum = *reinterpret_cast<const Lanes *>(base);
    for (size_t row = 0; row != numRows; ++row)
      if (rows[row].isShared)
        sum += rows[row].numbers[i];
      else
        sum += *reinterpret_cast<const Lanes *>(rows[row].numbers + i * numLanes);
    Lanes &to = *reinterpret_cast<Lanes *>(least + i * numLanes);
    to = sum < to ? sum : to;
  }
}

} // namespace

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
void lowerLanes(double *least, const double *base, const LaneRow *rows, size_t numRows, size_t count) {
  bool isFirstLane = numRows != 0 && !rows[0].isShared;
  size_t numShared = 0;
  for (size_t row = 0; row != numRows; ++row)
    numShared += rows[row].isShared;
  if (numRows == 1 && isFirstLane)
    return lower<1, 0>(least, base, rows, count);
  if (numRows == 1)
    return lower<0, 1>(least, base, rows, count);
  if (numRows == 2 && isFirstLane && numShared == 1)
    return lower<1, 1>(least, base, rows, count);
  if (numRows == 2 && numShared == 2)
    return lower<0, 2>(least, base, rows, count);
  if (numRows == 3 && isFirstLane && numShared == 2)
    return lower<1, 2>(least, base, rows, count);
  return lowerAny(least, base, rows, numRows, count);
}

} // namespace cleave::solver
