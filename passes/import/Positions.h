// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What imports that compute with positions are made of: constants of integers, positions along a dimension,
// comparisons, and parts of a dimension.

#ifndef CLEAVE_PASSES_IMPORT_POSITIONS_H
#define CLEAVE_PASSES_IMPORT_POSITIONS_H

#include "passes/import/NodeImporter.h"

namespace cleave {

/// A constant of i64.
mlir::Value integerConstant(NodeImporter &node, llvm::ArrayRef<int64_t> values, llvm::ArrayRef<int64_t> shape);

/// A constant of a floating-point type.
mlir::Value realConstant(NodeImporter &node, mlir::Type element, llvm::ArrayRef<double> values,
                         llvm::ArrayRef<int64_t> shape);

/// The position along `dim` as i64.
mlir::Value positionsAlong(NodeImporter &node, llvm::ArrayRef<int64_t> shape, int64_t dim);

mlir::Value compare(NodeImporter &node, mlir::Value lhs, dfg::Comparison comparison, mlir::Value rhs);

/// Elements [start, limit) of one dimension.
mlir::Value partOf(NodeImporter &node, mlir::Value value, int64_t dim, int64_t start, int64_t limit);

/// i64 positions in dimensions of `sizes` (which broadcast with `value`) with those that count from the end made to
/// count from the start.
mlir::Value fromStart(NodeImporter &node, mlir::Value positions, mlir::Value sizes);

/// `shape` with `size` in dimension `dim`.
llvm::SmallVector<int64_t> withSize(llvm::ArrayRef<int64_t> shape, int64_t dim, int64_t size);

/// The product of sizes.
int64_t productOf(llvm::ArrayRef<int64_t> sizes);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_POSITIONS_H
