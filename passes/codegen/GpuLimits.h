// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every GPU that kernels are compiled for has.

#ifndef CLEAVE_PASSES_CODEGEN_GPULIMITS_H
#define CLEAVE_PASSES_CODEGEN_GPULIMITS_H

#include "passes/codegen/NativeStorage.h"

#include "llvm/Support/MathExtras.h"

namespace cleave {

/// Threads that exchange values by themselves.
inline constexpr int64_t warpThreads = 32;
/// Threads of a block, and blocks of a launch, at most.
inline constexpr int64_t mostThreads = 1024, mostBlocks = (int64_t(1) << 31) - 1;
/// Iterations of a loop that are written out one after the other, at most: each makes the function larger.
inline constexpr int64_t mostWrittenOut = 256;
/// Shared memory that a function may declare; more has to be asked for when it is launched, and not every GPU has it.
inline constexpr int64_t mostSharedBytes = 48 * 1024, sharedAlignment = 16;
/// Arguments of a kernel lie at multiples of this.
inline constexpr int64_t argumentAlignment = 64;

/// Bytes of elements in shared memory.
inline int64_t sharedBytesOf(mlir::Type element, int64_t count) {
  return static_cast<int64_t>(llvm::alignTo<sharedAlignment>(static_cast<uint64_t>(count * elementBytes(element))));
}

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_GPULIMITS_H
