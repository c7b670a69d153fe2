// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass of the schedule stage in C++.

#ifndef CLEAVE_PASSES_SCHEDULE_PASSES_H
#define CLEAVE_PASSES_SCHEDULE_PASSES_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#include "passes/schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/schedule/Passes.h.inc"

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_PASSES_H
