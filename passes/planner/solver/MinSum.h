// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The innermost loop of elimination, in a file of its own so that it is built for the vectorizer.

#ifndef CLEAVE_PASSES_PLANNER_SOLVER_MINSUM_H
#define CLEAVE_PASSES_PLANNER_SOLVER_MINSUM_H

#include <cstddef>

namespace cleave::solver {

/// least[i] = min(least[i], base + rows[0][i] + … + rows[numRows - 1][i]) for i < count; at least one row.
void lowerToSum(double *least, double base, const double *const *rows, size_t numRows, size_t count);

} // namespace cleave::solver

#endif // CLEAVE_PASSES_PLANNER_SOLVER_MINSUM_H
