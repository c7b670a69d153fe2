// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Limits the length of the gradient of all parameters together.

#ifndef CLEAVE_PASSES_TRAIN_CLIPPING_H
#define CLEAVE_PASSES_TRAIN_CLIPPING_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace cleave {

/// The square root of the sum of all gradients' squares, an f32 scalar. One reduction a gradient, whose results are
/// added: what is cut over devices or lies on others is summed as any other reduction.
mlir::Value buildGlobalNorm(mlir::OpBuilder &builder, mlir::Location location, mlir::ValueRange gradients);

/// All gradients times min(1, largest / (norm + 1e-6)), as PyTorch's clip_grad_norm_ does. Source: Pascanu, Mikolov,
/// Bengio: On the difficulty of training recurrent neural networks, 2013.
llvm::SmallVector<mlir::Value> clipByGlobalNorm(mlir::OpBuilder &builder, mlir::Location location,
                                                mlir::ValueRange gradients, double largest);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_CLIPPING_H
