// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops of a kernel as attributes in the IR: written where they are decided, read where they are written out.

#ifndef CLEAVE_PASSES_CODEGEN_NESTATTRIBUTES_H
#define CLEAVE_PASSES_CODEGEN_NESTATTRIBUTES_H

#include "passes/codegen/NativeNests.h"

namespace cleave {

/// Gives each operation of the plan its `plan.nest` and returns what they share.
plan::CommonLoopsAttr writeNests(const NestPlan &plan, const Storage &storage, mlir::MLIRContext *context);

/// Reads the loops of the operations in `block` from their attributes and `common`; temporaries that lie on the stack
/// get their place in `storage`. Emits an error and fails where the attributes do not describe loops of the operations,
/// or loops that compute something else (verifyNests).
llvm::FailureOr<NestPlan> readNests(mlir::Block &block, plan::CommonLoopsAttr common, Storage &storage);

/// Checks that the loops of a plan compute what the operations in `block` mean: every iteration once, reductions in an
/// order that they allow, and what operations hand on where they expect it. Emits an error and fails otherwise. Whether
/// they are fast, and whether the stack has room, is not asked.
llvm::LogicalResult verifyNests(mlir::Block &block, const NestPlan &plan, const Storage &storage);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NESTATTRIBUTES_H
