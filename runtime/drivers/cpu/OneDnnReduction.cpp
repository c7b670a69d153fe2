// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over any set of dimensions.

#include "runtime/drivers/cpu/OneDnnOperations.h"

namespace cleave::runtime::onednn {

static dnnl::algorithm algorithmNamed(const std::string &kind) {
  static constexpr std::pair<std::string_view, dnnl::algorithm> rows[] = {{"mean", dnnl::algorithm::reduction_mean},
                                                                          {"sum", dnnl::algorithm::reduction_sum},
                                                                          {"max", dnnl::algorithm::reduction_max},
                                                                          {"min", dnnl::algorithm::reduction_min},
                                                                          {"mul", dnnl::algorithm::reduction_mul}};
  for (const auto &[name, algorithm] : rows)
    if (name == kind)
      return algorithm;
  refuse(Status::Unsupported, "onednn has no reduction \"", kind, '"');
}

Primitive buildReduction(Builder &builder) {
  builder.expectOperands(1, 1);
  dnnl::algorithm algorithm = algorithmNamed(builder.kind());
  std::vector<int64_t> kept = builder.inputType(0).shape;
  int64_t rank = static_cast<int64_t>(kept.size());
  auto found = builder.desc().ints.find("axes");
  if (found == builder.desc().ints.end() || found->second.empty())
    refuse(Status::Rejected, "attribute \"axes\" expects the reduced dimensions, got none");
  for (int64_t axis : found->second) {
    int64_t positive = axis < 0 ? axis + rank : axis;
    if (positive < 0 || positive >= rank)
      refuse(Status::Rejected, "attribute \"axes\" expects dimensions of ", builder.inputType(0).text(), ", got ",
             axis);
    kept[positive] = 1;
  }
  dnnl::memory::desc source = builder.inputOr(0, DNNL_ARG_SRC, std::nullopt);
  dnnl::memory::desc result = builder.output(DNNL_ARG_DST, kept);
  dnnl::reduction::desc desc(algorithm, source, result, 0.0f, 0.0f);
  return builder.finish(describe(desc, builder.attributes(kept)));
}

} // namespace cleave::runtime::onednn
