// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Terms of a cotangent that are joined instead of added.
//
// A weight that a recurrent layer uses in each of T steps has a gradient of T products, each a sum over a few samples:
//
//   sum over t of  x_t^T g_t   =   [x_1; …; x_T]^T [g_1; …; g_T]
//
// The left side writes and adds T matrices as large as the weight, the right side copies operands that are smaller than
// it and computes one product over all their rows. Of a tensor of which slices are used the gradient is a sum of slices
// between zeros, which is the concatenation of the slices where they meet.

#ifndef CLEAVE_PASSES_TRAIN_COTANGENTTERMS_H
#define CLEAVE_PASSES_TRAIN_COTANGENTTERMS_H

#include "passes/train/GradientPlaces.h"

namespace cleave {

/// Whether it may pay to join the placed value with other terms of its sum: a product that is larger than both operands
/// together, or a tensor between zeros in one dimension.
bool mayBeJoined(mlir::Value term);

/// What is left to add of terms for which mayBeJoined holds, at least one value. New operators are appended at
/// `builder`, placed as the terms' own, and added to `created`. Fails, with a diagnostic, where a place does not fit.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> joinTerms(llvm::ArrayRef<mlir::Value> terms, GradientPlaces &places,
                                                          mlir::OpBuilder &builder,
                                                          llvm::SmallVectorImpl<mlir::Operation *> &created);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_COTANGENTTERMS_H
