// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of our own on values that lie in a library's blocks.
//
// A value in whole blocks of one dimension is the same bytes as a row-major value with one dimension more: [1, 24, 4,
// 4] as nChw8c and [1, 3, 4, 4, 8]. Elementwise operators compute these as well as the original, and so do reductions
// and those that put values side by side.

#ifndef CLEAVE_PASSES_CODEGEN_WHOLEBLOCKS_H
#define CLEAVE_PASSES_CODEGEN_WHOLEBLOCKS_H

#include "passes/codegen/ReplacedValues.h"

namespace cleave {

/// Replaces an operator whose largest operand lies in whole blocks by the same on the blocks; its result lies so, too.
/// What is repeated for it is not repeated before. Returns whether it could: whether all that has the blocked dimension
/// has it in whole blocks.
bool computeOnBlocks(mlir::Operation *op, ReplacedValues &values);

/// Replaces a reduction of a value in whole blocks by the same on the blocks. Its result is row-major where the blocked
/// dimension is reduced, or is the last one that is more than one; else it lies in blocks. Returns whether it is such a
/// reduction.
bool reduceBlocks(mlir::Operation *op, ReplacedValues &values);

/// Replaces an operator that puts values side by side, and whose largest operand lies with its dimensions in another
/// order, by the same in that order: it copies what is contiguous. Returns whether it is such an operator.
bool joinInOrder(mlir::Operation *op, ReplacedValues &values);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_WHOLEBLOCKS_H
