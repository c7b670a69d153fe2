// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops of a pooling and of its gradient, and the arithmetic of windows on them.

#ifndef CLEAVE_DIALECTS_DFG_POOLLOOPS_H
#define CLEAVE_DIALECTS_DFG_POOLLOOPS_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerGenerics.h"

namespace cleave::dfg {

/// One spatial dimension of a pooling.
struct PoolDim {
  int64_t input, window, stride, before, dilation;
};

/// The loops of a pooling's gradient: those of the cotangent, then the window, of which a tensor without elements tells
/// the sizes.
struct PoolLoops {
  PoolLoops(const LinalgBuilder &lower, PoolGradientOp op);

  unsigned count() const { return rank + window.size(); }
  /// From the loops to the cotangent's index, to that of the padded input, and to that of the window.
  mlir::AffineMap narrowMap() const { return lower.without(count(), windowLoops); }
  mlir::AffineMap wideMap() const { return lower.mapOf(count(), wide); }
  mlir::AffineMap windowMap() const { return lower.mapOf(count(), window); }

  /// The number of the window's element in row-major order.
  mlir::Value number(const ElementBuilder &e) const;
  /// Whether the window's element lies on the input.
  mlir::Value isInside(const ElementBuilder &e) const;
  /// The index of the window's element in the input; where it lies on the padding, that of its nearest.
  llvm::SmallVector<mlir::Value> inputIndex(const ElementBuilder &e) const;

  const LinalgBuilder &lower;
  unsigned rank;
  llvm::SmallVector<mlir::AffineExpr> wide, window;
  llvm::SmallVector<int64_t> windowLoops;
  llvm::SmallVector<PoolDim> dims;
  mlir::Value sizes;

private:
  /// The position of the window's element in a dimension of the padded input.
  mlir::Value paddedPosition(const ElementBuilder &e, size_t dim) const;
};

/// Whether every element of the input lies in just one window.
bool isPartition(PoolGradientOp op);

/// Whether `value` counts as larger than `best`: NaN is larger than every number.
mlir::Value isLarger(const ElementBuilder &e, mlir::Value value, mlir::Value best);

/// What an element of the cotangent of an average gives to each element of its window, in the type that is computed in.
mlir::Value averageShares(const PoolLoops &loops, PoolGradientOp op, mlir::Value cotangent);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_POOLLOOPS_H
