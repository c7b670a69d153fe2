// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading and checking the sliding window, and pooling, the operation that is nothing but a window.

#include "runtime/drivers/cpu/OneDnnWindow.h"

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cpu/OneDnnOperations.h"

namespace cleave::runtime::onednn {

/// oneDNN computes extents of windows and padded images in ints.
static constexpr int64_t largestExtent = int64_t(1) << 29;

Window readWindow(const Builder &builder, const TensorType &wide, const TensorType &narrow,
                  std::span<const int64_t> kernel) {
  size_t rank = wide.shape.size();
  if (rank < 3 || rank > 5 || narrow.shape.size() != rank || kernel.size() != rank - 2)
    refuse(Status::Unsupported,
           "expects data [N, C, spatial...] with 1 to 3 spatial dimensions and a window of as many, ", "got ",
           wide.text(), ", ", narrow.text(), " and a window of ", kernel.size());
  size_t n = kernel.size();
  Window window{builder.integers("strides", n, 1, 1), builder.integers("dilations", n, 1, 1),
                builder.integers("pads_begin", n, 0, 0), builder.integers("pads_end", n, 0, 0)};
  for (size_t d = 0; d != n; ++d) {
    int64_t extent = (kernel[d] - 1) * window.dilations[d] + 1;
    if (kernel[d] < 1 || kernel[d] > largestExtent || extent > largestExtent || window.padsBegin[d] > largestExtent ||
        window.padsEnd[d] > largestExtent || wide.shape[d + 2] > largestExtent)
      refuse(Status::Unsupported, "the window of spatial dimension ", d, " is larger than ", largestExtent);
    int64_t room = wide.shape[d + 2] + window.padsBegin[d] + window.padsEnd[d] - extent;
    if (room < 0 || room / window.strides[d] + 1 != narrow.shape[d + 2])
      refuse(Status::Rejected, "the window of spatial dimension ", d, " does not lead from ", wide.text(), " to ",
             narrow.text(), ": it has an extent of ", extent, ", stride ", window.strides[d], " and padding ",
             window.padsBegin[d], " and ", window.padsEnd[d]);
    window.dilations[d] -= 1;
  }
  return window;
}

/// The algorithm that the operation's kind names.
static dnnl::algorithm poolingAlgorithm(const Builder &builder, bool withMax) {
  if (withMax && builder.kind() == "max")
    return dnnl::algorithm::pooling_max;
  if (builder.kind() == "avg_include")
    return dnnl::algorithm::pooling_avg_include_padding;
  if (builder.kind() == "avg_exclude")
    return dnnl::algorithm::pooling_avg_exclude_padding;
  refuse(Status::Unsupported, "onednn has no ", builder.family(), " of kind \"", builder.kind(), '"');
}

static std::vector<int64_t> readKernel(const Builder &builder) {
  const TensorType &type = builder.inputType(0);
  if (type.shape.size() < 3)
    refuse(Status::Rejected, "input 0 expects [N, C, spatial...], got ", type.text());
  return builder.integers("kernel", type.shape.size() - 2, 1, 1);
}

Primitive buildPooling(Builder &builder) {
  builder.expectOperands(1, 1);
  dnnl::algorithm algorithm = poolingAlgorithm(builder, /*withMax=*/true);
  const TensorType &type = builder.inputType(0);
  std::vector<int64_t> kernel = readKernel(builder);
  Window window = readWindow(builder, type, builder.outputType(), kernel);
  dnnl::memory::desc source = builder.inputOr(0, DNNL_ARG_SRC, preferredDataLayout(type));
  dnnl::memory::desc result = builder.output(DNNL_ARG_DST);
  dnnl::pooling_v2_forward::desc desc(dnnl::prop_kind::forward_inference, algorithm, source, result, window.strides,
                                      kernel, window.dilations, window.padsBegin, window.padsEnd);
  return builder.finish(describe(desc, builder.attributes()));
}

/// Of averages, which need nothing that the forward pooling saw. What is left open gets the layout of the other side.
Primitive buildPoolingGradient(Builder &builder) {
  builder.expectOperands(1, 1);
  dnnl::algorithm algorithm = poolingAlgorithm(builder, /*withMax=*/false);
  const TensorType &narrow = builder.inputType(0), &wide = builder.outputType();
  std::vector<int64_t> kernel = readKernel(builder);
  Window window = readWindow(builder, wide, narrow, kernel);
  dnnl::memory::desc cotangent = builder.inputOr(0, DNNL_ARG_DIFF_DST, preferredDataLayout(narrow));
  dnnl::memory::desc gradient = builder.output(DNNL_ARG_DIFF_SRC);
  // oneDNN asks for a forward operation, whose layouts do not count.
  auto dense = [&](const TensorType &type) {
    return dnnl::memory::desc(type.shape, cotangent.data_type(), denseLayout(type.shape).strides);
  };
  dnnl::pooling_v2_forward::desc forward(dnnl::prop_kind::forward_training, algorithm, dense(wide), dense(narrow),
                                         window.strides, kernel, window.dilations, window.padsBegin, window.padsEnd);
  dnnl::pooling_v2_backward::desc desc(algorithm, gradient, cotangent, window.strides, kernel, window.dilations,
                                       window.padsBegin, window.padsEnd);
  return builder.finish(describe(desc, builder.attributes(), describe(forward, {})));
}

} // namespace cleave::runtime::onednn
