// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel passes in C++.

#ifndef CLEAVE_PASSES_CODEGEN_KERNELPASSES_H
#define CLEAVE_PASSES_CODEGEN_KERNELPASSES_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#include "passes/codegen/KernelPasses.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/codegen/KernelPasses.h.inc"

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_KERNELPASSES_H
