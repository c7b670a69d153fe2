// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise operators that a library computes as a part of the routine in front of them.

#ifndef CLEAVE_PASSES_CODEGEN_LIBRARYEPILOGUES_H
#define CLEAVE_PASSES_CODEGEN_LIBRARYEPILOGUES_H

#include "passes/codegen/ConstantValues.h"
#include "passes/codegen/LibraryKernels.h"

#include "dialects/interfaces/Interfaces.h"

namespace cleave {

/// An operator that joins a library call behind its routine.
struct Epilogue {
  mlir::Operation *op;
  LibraryEpilogue kind;
  /// The value besides the chained one, or null.
  mlir::Value other;
  /// The shape under which the routine, whose result may be reshaped on its way, sees the other value: of the result's
  /// rank, perhaps with ones.
  llvm::SmallVector<int64_t> otherShape;
  /// It is one value a channel, and the routine adds it by itself.
  bool isBias = false;
};

/// The operators that may join the routine of `op`, in the order in which they follow it. The library may still refuse
/// some. Where values stay row-major, reshapes may lie between them.
llvm::SmallVector<Epilogue> epiloguesBehind(mlir::Operation *op, const LibraryCall &call, ConstantValues &constants,
                                            const KernelDevice &device);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_LIBRARYEPILOGUES_H
