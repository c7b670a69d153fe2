// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processor that CPU devices get their kernels for.

#ifndef CLEAVE_PASSES_CODEGEN_CHOOSEPROCESSOR_H
#define CLEAVE_PASSES_CODEGEN_CHOOSEPROCESSOR_H

#include "passes/codegen/NativeTarget.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/Error.h"

namespace cleave {

/// What processors of all these chips can do ("x86-64-v3", "" for the one that compiles); equal ones may occur. Fails
/// for one that LLVM does not know.
llvm::Expected<NativeTarget> commonTarget(llvm::ArrayRef<llvm::StringRef> chips);

/// Whether oneDNN multiplies numbers of bfloat16 on a processor; elsewhere our kernels do, which round as they read.
bool multipliesBrainFloats(const NativeTarget &target);

/// Writes `plan.processor`, where the module has none yet: what all its devices of the driver "cpu" can do, by their
/// chips; nothing where it has no such devices. `limitsLibraries`: the libraries of this process keep to it from here
/// on. Fails for a processor that LLVM does not know, and as runtime::limitOneDnn() does.
llvm::Error chooseProcessor(mlir::ModuleOp module, bool limitsLibraries);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_CHOOSEPROCESSOR_H
