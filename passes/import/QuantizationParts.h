// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What operators on quantized tensors are made of. A quantized tensor is an input of integers of 8 or 16 bits, and two
// more with its scale and its zero point: one for all elements, or one each along an axis.

#ifndef CLEAVE_PASSES_IMPORT_QUANTIZATIONPARTS_H
#define CLEAVE_PASSES_IMPORT_QUANTIZATIONPARTS_H

#include "passes/import/NodeImporter.h"

namespace cleave {

/// A scale or zero point (input `index`) for a tensor of `shape`, in a shape that broadcasts with it: one for all, one
/// for each element along `axis`, or, with the attribute `block_size`, one for each block of elements along it. An
/// `axis` of -1 is none.
llvm::FailureOr<mlir::Value> alongAxis(NodeImporter &node, unsigned index, llvm::ArrayRef<int64_t> shape, int64_t axis);

/// Input `index` less its zero point (input `zero`, if it is there), in int32.
llvm::FailureOr<mlir::Value> centred(NodeImporter &node, unsigned index, unsigned zero, int64_t axis);

/// Input `index`, which two more follow, its scale and its zero point, as reals.
llvm::FailureOr<mlir::Value> dequantized(NodeImporter &node, unsigned index, int64_t axis = -1);

/// `real` as integers of the type of the zero point (input `scale` + 1), by a scale (input `scale`) for all.
ImportResults requantized(NodeImporter &node, mlir::Value real, unsigned scale);

/// The elements of input `index` as float32: reals that must be known, `count` in number. `what` says in errors what
/// they are ("scales").
llvm::FailureOr<llvm::SmallVector<float>> knownReals(NodeImporter &node, unsigned index, int64_t count,
                                                     llvm::StringRef what);

/// Number `index` of those of `bits` bits that are packed into bytes from `first` on, low bits first.
unsigned packedNumber(const HostTensor &packed, int64_t first, int64_t index, int64_t bits);

/// Weights of 8 bits that are multiplied as integers (input `index`) become parameters of that type, however small they
/// are. Training changes weights, so they are reals there.
void keepWeights(NodeImporter &node, unsigned index);

/// To uint8 by the range of the elements, which includes zero: the numbers, their scale, and their zero point.
struct DynamicallyQuantized {
  mlir::Value numbers, scale, zero;
};
DynamicallyQuantized quantizeDynamically(NodeImporter &node, mlir::Value input);

/// The product of two stacks of matrices in int32; without a stack on the right all are multiplied by one matrix.
mlir::Value integerProduct(NodeImporter &node, mlir::Value lhs, mlir::Value rhs);

/// Refuses inputs that integerProduct() does not multiply.
llvm::LogicalResult checkIntegerProduct(NodeImporter &node, unsigned left, unsigned right);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_QUANTIZATIONPARTS_H
