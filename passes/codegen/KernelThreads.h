// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are worked on by several threads.

#ifndef CLEAVE_PASSES_CODEGEN_KERNELTHREADS_H
#define CLEAVE_PASSES_CODEGEN_KERNELTHREADS_H

#include "mlir/IR/MLIRContext.h"

namespace cleave {

/// Calls `work` once for each number below `count`, on up to `threads` threads, in any order. A context without threads
/// has no locks: then this thread does all.
void forEachInThreads(mlir::MLIRContext &context, unsigned threads, size_t count,
                      llvm::function_ref<void(size_t)> work);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_KERNELTHREADS_H
