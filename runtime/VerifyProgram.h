// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the verifier that looks at an entry's programs: buffers, instructions and channels, not yet their order.

#ifndef CLEAVE_RUNTIME_VERIFYPROGRAM_H
#define CLEAVE_RUNTIME_VERIFYPROGRAM_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// Checks the programs of an entry of a plan whose meshes, parameters, kernels and ports are sound. Status::Rejected;
/// Status::Infeasible when an arena exceeds its device's memory limit.
Error verifyPrograms(const PlanContents &plan, const Entry &entry);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_VERIFYPROGRAM_H
