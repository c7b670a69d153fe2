// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The innermost loops of the programme across stages, in a file of their own so that they are built for the vectorizer.

#ifndef CLEAVE_PASSES_PLANNER_STAGES_SHIFTEDSUMS_H
#define CLEAVE_PASSES_PLANNER_STAGES_SHIFTEDSUMS_H

#include <cstddef>

namespace cleave::stages {

/// here[i] = min(here[i], after[i] + seconds) for i < count. What is read and what is written do not overlap.
void lower(double *here, const double *after, double seconds, size_t count);

/// The same with `across` in the place of `within` where `crosses` is not zero.
void lowerByHost(double *here, const double *after, double within, double across, const double *crosses, size_t count);

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_SHIFTEDSUMS_H
