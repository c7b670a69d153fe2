// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading and checking the sliding window, and pooling, the operation that is nothing but a window.

#include "runtime/drivers/cpu/OneDnnWindow.h"

#include "runtime/drivers/cpu/OneDnnLayout.h"
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

/// The algorithm of "max", "avg_include" or "avg_exclude".
static dnnl::algorithm poolingNamed(const std::string &kind) {
  if (kind == "max")
    return dnnl::algorithm::pooling_max;
  if (kind == "avg_include")
    return dnnl::algorithm::pooling_avg_include_padding;
  if (kind == "avg_exclude")
    return dnnl::algorithm::pooling_avg_exclude_padding;
  refuse(Status::Unsupported, "onednn has no pooling of kind \"", kind, '"');
}

Primitive buildPooling(Builder &builder) {
  builder.expectOperands(1, 1);
  dnnl::algorithm algorithm = poolingNamed(builder.kind());
  const TensorType &type = builder.inputType(0);
  if (type.shape.size() < 3)
    refuse(Status::Rejected, "input 0 expects [N, C, spatial...], got ", type.text());
  std::vector<int64_t> kernel = builder.integers("kernel", type.shape.size() - 2, 1, 1);
  Window window = readWindow(builder, type, builder.outputType(), kernel);
  dnnl::memory::desc source = builder.inputOr(0, DNNL_ARG_SRC, preferredDataLayout(type));
  dnnl::memory::desc result = builder.output(DNNL_ARG_DST);
  dnnl::pooling_v2_forward::desc desc(dnnl::prop_kind::forward_inference, algorithm, source, result, window.strides,
                                      kernel, window.dilations, window.padsBegin, window.padsEnd);
  return builder.finish(describe(desc, builder.attributes()));
}

/// Without the gradient of a largest element, for which oneDNN wants to have run the pooling itself before.
Primitive buildPoolingGradient(Builder &builder) {
  builder.expectOperands(1, 1);
  dnnl::algorithm algorithm = poolingNamed(builder.kind());
  if (algorithm == dnnl::algorithm::pooling_max)
    refuse(Status::Unsupported, "onednn has no gradient of pooling of kind \"max\" alone");
  const TensorType &type = builder.inputType(0);
  if (type.shape.size() < 3)
    refuse(Status::Rejected, "input 0 expects [N, C, spatial...], got ", type.text());
  std::vector<int64_t> kernel = builder.integers("kernel", type.shape.size() - 2, 1, 1);
  Window window = readWindow(builder, builder.outputType(), type, kernel);
  // The gradient lies as the cotangent does.
  std::optional<Layout> layout = builder.anyInput(0) ? preferredDataLayout(type) : type.layout;
  if (layout && layout->innerBlocks.size() != 1)
    refuse(Status::Unsupported, "input 0 expects dense data or one block of channels, got ", type.text());
  dnnl::memory::desc narrow = builder.inputOr(0, DNNL_ARG_DIFF_DST, layout);
  if (layout)
    layout = blockedLayout(builder.outputType().shape, layout->innerDims[0], layout->innerBlocks[0]);
  dnnl::memory::desc wide = builder.outputOr(DNNL_ARG_DIFF_SRC, layout);
  dnnl::pooling_v2_forward::desc forward(dnnl::prop_kind::forward_training, algorithm, wide, narrow, window.strides,
                                         kernel, window.dilations, window.padsBegin, window.padsEnd);
  dnnl::pooling_v2_backward::desc desc(algorithm, wide, narrow, window.strides, kernel, window.dilations,
                                       window.padsBegin, window.padsEnd);
  dnnl::primitive_attr attributes = builder.attributes();
  return builder.finish(describeGradient(desc, attributes, describe(forward, dnnl::primitive_attr())));
}

} // namespace cleave::runtime::onednn
