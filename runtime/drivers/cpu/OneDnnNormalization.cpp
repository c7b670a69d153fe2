// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax and the normalizations: layer, batch (inference), local response.

#include "runtime/drivers/cpu/OneDnnOperations.h"

namespace cleave::runtime::onednn {

using dnnl::memory;
using dnnl::normalization_flags;
using dnnl::prop_kind;

static void expectSameShape(const Builder &builder) {
  if (builder.inputType(0).shape != builder.outputType().shape)
    refuse(Status::Rejected, "output expects the shape of input 0, ", builder.inputType(0).text(), ", got ",
           builder.outputType().text());
}

Primitive buildSoftmax(Builder &builder) {
  builder.expectOperands(1, 1);
  expectSameShape(builder);
  int axis = builder.axis(builder.inputType(0).shape.size());
  memory::desc source = builder.inputOr(0, DNNL_ARG_SRC, std::nullopt);
  memory::desc result = builder.output(DNNL_ARG_DST);
  dnnl::softmax_v2_forward::desc desc(prop_kind::forward_inference,
                                      builder.family() == "softmax" ? dnnl::algorithm::softmax_accurate
                                                                    : dnnl::algorithm::softmax_log,
                                      source, result, axis);
  return builder.finish(describe(desc, builder.attributes()));
}

Primitive buildLayerNorm(Builder &builder) {
  builder.expectOperands(1, 3);
  expectSameShape(builder);
  const std::vector<int64_t> &shape = builder.inputType(0).shape;
  int axis = builder.axis(shape.size());
  // oneDNN normalizes the last dimension alone, so the normalized ones become one.
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d != shape.size(); ++d)
    (static_cast<int>(d) < axis ? outer : inner) *= shape[d];
  std::vector<int64_t> view{outer, inner};
  memory::desc data = builder.inputOr(0, DNNL_ARG_SRC, std::nullopt, view);
  normalization_flags flags = normalization_flags::none;
  if (builder.numOperands() >= 2) {
    builder.inputOr(1, DNNL_ARG_SCALE, std::nullopt, {inner});
    flags = flags | normalization_flags::use_scale;
  }
  if (builder.numOperands() == 3) {
    builder.inputOr(2, DNNL_ARG_SHIFT, std::nullopt, {inner});
    flags = flags | normalization_flags::use_shift;
  }
  builder.output(DNNL_ARG_DST, view);
  dnnl::layer_normalization_forward::desc desc(prop_kind::forward_inference, data, builder.real("epsilon", 1e-5),
                                               flags);
  return builder.finish(describe(desc, builder.attributes(view)));
}

Primitive buildBatchNorm(Builder &builder) {
  builder.expectOperands(5, 5);
  expectSameShape(builder);
  const TensorType &type = builder.inputType(0);
  if (type.shape.size() < 2)
    refuse(Status::Rejected, "input 0 expects [N, C, ...], got ", type.text());
  memory::desc data = builder.inputOr(0, DNNL_ARG_SRC, preferredDataLayout(type));
  const int arguments[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};
  for (size_t i = 0; i != 4; ++i) {
    if (builder.inputType(i + 1).element != ElementType::F32)
      refuse(Status::Unsupported, "input ", i + 1, " expects f32, got ", builder.inputType(i + 1).text());
    builder.inputOr(i + 1, arguments[i], std::nullopt, {type.shape[1]});
  }
  builder.output(DNNL_ARG_DST);
  dnnl::batch_normalization_forward::desc desc(prop_kind::forward_inference, data, builder.real("epsilon", 1e-5),
                                               normalization_flags::use_global_stats | normalization_flags::use_scale |
                                                   normalization_flags::use_shift);
  return builder.finish(describe(desc, builder.attributes()));
}

Primitive buildLrn(Builder &builder) {
  builder.expectOperands(1, 1);
  expectSameShape(builder);
  const TensorType &type = builder.inputType(0);
  if (type.shape.size() < 2)
    refuse(Status::Rejected, "input 0 expects [N, C, ...], got ", type.text());
  int64_t size = builder.integer("size", 5, 1);
  if (size % 2 == 0)
    refuse(Status::Unsupported, "onednn takes an odd window for lrn, got ", size);
  memory::desc data = builder.inputOr(0, DNNL_ARG_SRC, preferredDataLayout(type));
  builder.output(DNNL_ARG_DST);
  dnnl::lrn_forward::desc desc(prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, data, size,
                               builder.real("alpha", 1e-4), builder.real("beta", 0.75), builder.real("k", 1));
  return builder.finish(describe(desc, builder.attributes()));
}

} // namespace cleave::runtime::onednn
