// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which layouts to ask a library for.

#ifndef CLEAVE_PASSES_CODEGEN_LAYOUTQUESTIONS_H
#define CLEAVE_PASSES_CODEGEN_LAYOUTQUESTIONS_H

#include "passes/codegen/ReplacedValues.h"

namespace cleave {

/// The kernel of `query` on `arguments` that is best where they lie as they do: one that reads them so, one that makes
/// `result` in the layout of what that meets next, else the one that the library likes best. `query` becomes the
/// question that was answered. Fails where the library has none.
llvm::FailureOr<LibraryKernel> askForKernel(LibraryKernels &kernels, KernelDevice device, const ReplacedValues &values,
                                            runtime::LibraryKernelQuery &query, llvm::ArrayRef<mlir::Value> arguments,
                                            mlir::Value result);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_LAYOUTQUESTIONS_H
