// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The sliding window that convolution, deconvolution and pooling share: strides, dilations and padding a spatial
// dimension, within bounds that no arithmetic of oneDNN overflows.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNWINDOW_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNWINDOW_H

#include "runtime/drivers/cpu/OneDnnBuilder.h"

namespace cleave::runtime::onednn {

/// Window attributes as oneDNN counts them: a dense window has dilation 0.
struct Window {
  dnnl::memory::dims strides, dilations, padsBegin, padsEnd;
};

/// Reads strides, dilations, pads_begin and pads_end for data [N, C, spatial...] and checks that a window of `kernel`
/// moves from `wide` (the larger side: a convolution's input, a deconvolution's output) to `narrow`, rounding down.
Window readWindow(const Builder &builder, const TensorType &wide, const TensorType &narrow,
                  std::span<const int64_t> kernel);

} // namespace cleave::runtime::onednn

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNWINDOW_H
