// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes of the train stage in C++.

#ifndef CLEAVE_PASSES_TRAIN_PASSES_H
#define CLEAVE_PASSES_TRAIN_PASSES_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#include "passes/train/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/train/Passes.h.inc"

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_PASSES_H
