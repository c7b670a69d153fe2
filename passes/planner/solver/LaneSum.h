// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The innermost loop of elimination for several objectives at once, in a file of its own so that it is built for the
// vectorizer.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_LANESUM_H
#define CLEAVE_PASSES_PLANNER_SOLVER_LANESUM_H

#include <cstddef>

namespace cleave::solver {

/// Objectives that are minimised at once, each in its lane: a number for each of them lies beside the others.
inline constexpr unsigned numLanes = 8;

/// A number of each lane for each index, or one number for all lanes.
struct LaneRow {
  const double *numbers = nullptr;
  bool isShared = false;
};

/// In every lane: least[i] = min(least[i], base + rows[0][i] + … + rows[numRows - 1][i]) for i < count.
void lowerLanes(double *least, const double *base, const LaneRow *rows, size_t numRows, size_t count);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_LANESUM_H
