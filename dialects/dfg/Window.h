// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The sliding window that convolutions and pooling share.

#ifndef CLEAVE_DIALECTS_DFG_WINDOW_H
#define CLEAVE_DIALECTS_DFG_WINDOW_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"
#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <optional>

namespace cleave::dfg {

/// Checks the attributes of a window operator over `rank` spatial dimensions; `name` is the operator's in messages.
llvm::LogicalResult checkWindow(std::optional<mlir::Location> location, llvm::StringRef name, size_t rank,
                                llvm::ArrayRef<int64_t> window, llvm::ArrayRef<int64_t> strides,
                                llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations);

/// The number of window positions along one dimension.
int64_t windowPositions(int64_t size, int64_t window, int64_t stride, int64_t before, int64_t after, int64_t dilation);

/// As windowPositions for all spatial dimensions, those behind the first two of `input`; checked window attributes.
llvm::SmallVector<int64_t> windowPositions(llvm::ArrayRef<int64_t> input, llvm::ArrayRef<int64_t> window,
                                           llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> pads,
                                           llvm::ArrayRef<int64_t> dilations);

/// OpCost::winogradPixels of a convolution whose filter has windows of the sizes `window`; `channels` are those that
/// vectors hold, of several sides the fewest; `image` is [N, channels, spatial...].
double winogradPixels(mlir::RankedTensorType image, llvm::ArrayRef<int64_t> window, int64_t channels,
                      llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> dilations, int64_t groups);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_WINDOW_H
