// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which the dimensions of a tensor lie in memory.

#ifndef CLEAVE_PASSES_CODEGEN_DIMENSIONORDER_H
#define CLEAVE_PASSES_CODEGEN_DIMENSIONORDER_H

#include "dialects/dfg/TensorType.h"
#include "dialects/plan/Plan.h"

#include "runtime/TensorType.h"

#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace cleave {

/// The layout of a tensor of `shape` that is like `layout`: the same dimension cut into blocks of the same size, or the
/// same order of dimensions; none where it is more complicated.
std::optional<runtime::Layout> sameKindOfLayout(plan::LayoutAttr layout, const std::vector<int64_t> &shape);

/// The dimensions as they lie in memory, the outermost first; none for a tensor that lies row-major or in blocks.
std::optional<llvm::SmallVector<int64_t>> permutationOf(mlir::RankedTensorType type);

/// The row-major type whose dimension `i` is dimension order[i] of `type`.
mlir::RankedTensorType permuted(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> order);

/// The order in which the dimensions of `to` lie when a tensor of shape `from`, whose dimensions lie as `order` says,
/// is seen under that shape, as many elements in row-major order; none where the elements do not stay where they are.
/// That they do where dimensions are cut into some that lie side by side, and where such are joined.
std::optional<llvm::SmallVector<int64_t>> orderBehindReshape(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                                                             llvm::ArrayRef<int64_t> order);

/// The type of a value that lies in that order of its dimensions.
mlir::RankedTensorType laidType(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> order);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_DIMENSIONORDER_H
