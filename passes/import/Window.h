// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attributes that convolutions and pooling share: window, strides, dilations and the many ways to say pads.

#ifndef CLEAVE_PASSES_IMPORT_WINDOW_H
#define CLEAVE_PASSES_IMPORT_WINDOW_H

#include "passes/import/NodeImporter.h"

namespace cleave {

/// A sliding window over the spatial dimensions; `pads` holds those before each dimension, then those after.
struct Window {
  llvm::SmallVector<int64_t> sizes, strides, dilations, pads;
  std::string autoPad;

  /// Elements that the window spans in a dimension.
  int64_t span(size_t dim) const { return dilations[dim] * (sizes[dim] - 1) + 1; }
};

/// Reads `kernel_shape` (or `sizes` where the node has none), `strides`, `dilations`, `pads` and `auto_pad` for spatial
/// dimensions of the given sizes, and works out the pads that `auto_pad` asks for. With `transposed` only explicit pads
/// are read.
llvm::FailureOr<Window> readWindow(NodeImporter &node, llvm::ArrayRef<int64_t> spatial, llvm::ArrayRef<int64_t> sizes,
                                   bool transposed = false);

/// A convolution of two values by the node's attributes; null, with an error, where they do not fit.
mlir::Value buildConvolution(NodeImporter &node, mlir::Value input, mlir::Value filter);

/// An average pooling of a value of rank 3 at least by the node's attributes.
llvm::FailureOr<mlir::Value> buildAveragePool(NodeImporter &node, mlir::Value input);

/// A pooling of a value of rank 3 at least, not empty, by one window as large as the image.
mlir::Value buildGlobalPool(NodeImporter &node, mlir::Value input, dfg::PoolKind kind);

/// Lets the last window of each dimension reach over the padded input's end (`ceil_mode`), by more pads after it;
/// windows that would start beyond the input are left out. Returns the additional pads.
llvm::SmallVector<int64_t> extendForCeil(const Window &window, llvm::ArrayRef<int64_t> spatial);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_WINDOW_H
