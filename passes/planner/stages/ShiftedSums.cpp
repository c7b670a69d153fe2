// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/planner/stages/ShiftedSums.h"

#include "passes/planner/solver/VectorTargets.h"

namespace cleave::stages {

CLEAVE_FOR_EACH
void lower(double *__restrict here, const double *__restrict after, double seconds, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    double value = after[i] + seconds;
    here[i] = value < here[i] ? value : here[i];
  }
}

CLEAVE_FOR_EACH
void lowerByHost(double *__restrict here, const double *__restrict after, double within, double across,
                 const double *__restrict crosses, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    double value = after[i] + (crosses[i] != 0 ? across : within);
    here[i] = value < here[i] ? value : here[i];
  }
}

} // namespace cleave::stages
