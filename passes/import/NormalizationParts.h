// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What operators of normalization have in common, ONNX's and those that ONNX Runtime fuses.

#ifndef CLEAVE_PASSES_IMPORT_NORMALIZATIONPARTS_H
#define CLEAVE_PASSES_IMPORT_NORMALIZATIONPARTS_H

#include "passes/import/NodeImporter.h"

namespace cleave {

/// `value` with mean zero and variance one over `dims` together.
mlir::Value layerNorm(NodeImporter &node, mlir::Value value, llvm::ArrayRef<int64_t> dims, double epsilon);

/// value * scale + bias, the latter two where they are not null.
mlir::Value scaleAndShift(NodeImporter &node, mlir::Value value, mlir::Value scale, mlir::Value bias);

/// The dimensions from `first` to the last of `rank`.
llvm::SmallVector<int64_t> dimsFrom(int64_t first, int64_t rank);

/// The mean and the inverse standard deviation over `dims`, which have size one in the results.
std::pair<mlir::Value, mlir::Value> layerNormStatistics(NodeImporter &node, mlir::Value value,
                                                        llvm::ArrayRef<int64_t> dims, double epsilon);

/// The root of the mean square over `dims`, which have size one in the result.
mlir::Value rootMeanSquare(NodeImporter &node, mlir::Value value, llvm::ArrayRef<int64_t> dims, double epsilon);

/// Layer normalization of groups of channels: from batch x channels x ... to batch x groups x everything else, without
/// scale and bias. An error where the groups do not divide.
mlir::Value groupNorm(NodeImporter &node, mlir::Value value, int64_t groups, double epsilon);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_NORMALIZATIONPARTS_H
