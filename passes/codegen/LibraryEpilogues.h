// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise operators that a library computes as a part of the routine in front of them.

#ifndef CLEAVE_PASSES_CODEGEN_LIBRARYEPILOGUES_H
#define CLEAVE_PASSES_CODEGEN_LIBRARYEPILOGUES_H

#include "passes/codegen/ConstantValues.h"

#include "dialects/interfaces/Interfaces.h"

namespace cleave {

/// An operator that joins a library call behind its routine.
struct Epilogue {
  mlir::Operation *op;
  LibraryEpilogue kind;
  /// The value besides the chained one, or null.
  mlir::Value other;
  /// It is one value a channel, and the routine adds it by itself.
  bool isBias = false;
};

/// The operators that may join the routine of `op`, in the order in which they follow it. The library may still refuse
/// some.
llvm::SmallVector<Epilogue> epiloguesBehind(mlir::Operation *op, const LibraryCall &call, ConstantValues &constants);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_LIBRARYEPILOGUES_H
