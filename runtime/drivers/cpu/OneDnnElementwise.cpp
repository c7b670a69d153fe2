// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations on one element at a time, and those that only move elements: eltwise, binary, sum, concat, reorder; and
// the names of elementwise functions.

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cpu/OneDnnOperations.h"

namespace cleave::runtime::onednn {

using dnnl::algorithm;
using dnnl::memory;

std::optional<Eltwise> eltwiseNamed(std::string_view kind, float alpha, float beta) {
  enum Parameters { None, Alpha, Both };
  struct Row {
    std::string_view name;
    algorithm function;
    Parameters parameters;
  };
  static constexpr Row rows[] = {
      {"relu", algorithm::eltwise_relu, None},
      {"leaky_relu", algorithm::eltwise_relu, Alpha},
      {"elu", algorithm::eltwise_elu, Alpha},
      {"clip", algorithm::eltwise_clip, Both},
      {"sigmoid", algorithm::eltwise_logistic, None},
      {"tanh", algorithm::eltwise_tanh, None},
      {"gelu_erf", algorithm::eltwise_gelu_erf, None},
      {"gelu_tanh", algorithm::eltwise_gelu_tanh, None},
      {"hard_swish", algorithm::eltwise_hardswish, None},
      {"abs", algorithm::eltwise_abs, None},
      {"exp", algorithm::eltwise_exp, None},
      {"linear", algorithm::eltwise_linear, Both},
      {"log", algorithm::eltwise_log, None},
      {"mish", algorithm::eltwise_mish, None},
      {"pow", algorithm::eltwise_pow, Both},
      {"round", algorithm::eltwise_round, None},
      {"soft_relu", algorithm::eltwise_soft_relu, None},
      {"sqrt", algorithm::eltwise_sqrt, None},
      {"square", algorithm::eltwise_square, None},
      {"swish", algorithm::eltwise_swish, Alpha},
  };
  for (const Row &row : rows)
    if (row.name == kind)
      return Eltwise{row.function, row.parameters == None ? 0 : alpha, row.parameters == Both ? beta : 0};
  return std::nullopt;
}

std::optional<algorithm> binaryNamed(std::string_view kind) {
  static constexpr std::pair<std::string_view, algorithm> rows[] = {
      {"add", algorithm::binary_add}, {"sub", algorithm::binary_sub}, {"mul", algorithm::binary_mul},
      {"div", algorithm::binary_div}, {"max", algorithm::binary_max}, {"min", algorithm::binary_min}};
  for (const auto &[name, function] : rows)
    if (name == kind)
      return function;
  return std::nullopt;
}

/// Refuses an output whose shape is not `shape`.
static void expectOutputShape(const Builder &builder, const std::vector<int64_t> &shape) {
  if (builder.outputType().shape != shape)
    refuse(Status::Rejected, "output expects the type ",
           TensorType{builder.outputType().element, shape, std::nullopt}.text(), ", got ", builder.outputType().text());
}

Primitive buildEltwise(Builder &builder) {
  builder.expectOperands(1, 1);
  expectOutputShape(builder, builder.inputType(0).shape);
  auto eltwise = eltwiseNamed(builder.kind(), builder.real("alpha", 0), builder.real("beta", 0));
  if (!eltwise)
    refuse(Status::Unsupported, "onednn has no elementwise function \"", builder.kind(), '"');
  memory::desc data = builder.inputOr(0, DNNL_ARG_SRC, std::nullopt);
  builder.output(DNNL_ARG_DST);
  dnnl::eltwise_forward::desc desc(dnnl::prop_kind::forward_inference, eltwise->algorithm, data, eltwise->alpha,
                                   eltwise->beta);
  return builder.finish(describe(desc, builder.attributes()));
}

Primitive buildBinary(Builder &builder) {
  builder.expectOperands(2, 2);
  auto function = binaryNamed(builder.kind());
  if (!function)
    refuse(Status::Unsupported, "onednn has no binary function \"", builder.kind(), '"');
  const std::vector<int64_t> &shape = builder.outputType().shape;
  std::vector<int64_t> views[] = {widened(builder.inputType(0).shape, shape.size()),
                                  widened(builder.inputType(1).shape, shape.size())};
  for (const std::vector<int64_t> &view : views)
    for (size_t d = 0; d != view.size(); ++d)
      if (view.size() != shape.size() || (view[d] != shape[d] && view[d] != 1))
        refuse(Status::Rejected, "inputs ", builder.inputType(0).text(), " and ", builder.inputType(1).text(),
               " do not broadcast to ", builder.outputType().text());
  // oneDNN broadcasts its second source only; where order does not matter, the one that broadcasts goes there.
  bool ordered = *function == algorithm::binary_sub || *function == algorithm::binary_div;
  size_t first = views[0] != shape && !ordered ? 1 : 0, second = 1 - first;
  if (views[first] != shape)
    refuse(Status::Unsupported, "onednn does not broadcast input 0 of binary.", builder.kind());
  memory::desc left = builder.inputOr(first, DNNL_ARG_SRC_0, std::nullopt, views[first]);
  bool alike = views[second] == views[first] && builder.inputType(second).shape == builder.inputType(first).shape;
  memory::desc right =
      builder.inputOr(second, DNNL_ARG_SRC_1, alike ? builder.inputType(first).layout : std::nullopt, views[second]);
  memory::desc result = builder.output(DNNL_ARG_DST);
  return builder.finish(describe(dnnl::binary::desc(*function, left, right, result), builder.attributes()));
}

/// Binds every operand, in order, and returns their descriptors.
static std::vector<memory::desc> bindSources(Builder &builder) {
  std::vector<memory::desc> sources;
  for (size_t i = 0; i != builder.numOperands(); ++i) {
    if (builder.inputType(i).element != builder.outputType().element)
      refuse(Status::Rejected, "input ", i, " expects elements of type ", elementName(builder.outputType().element),
             ", got ", elementName(builder.inputType(i).element));
    sources.push_back(builder.inputOr(i, DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), std::nullopt));
  }
  return sources;
}

Primitive buildSum(Builder &builder) {
  builder.expectOperands(1, 64);
  auto found = builder.desc().reals.find("scales");
  std::vector<float> scales(builder.numOperands(), 1.0f);
  if (found != builder.desc().reals.end()) {
    if (found->second.size() != scales.size())
      refuse(Status::Rejected, "attribute \"scales\" expects ", scales.size(), " values, got ", found->second.size());
    scales.assign(found->second.begin(), found->second.end());
  }
  for (size_t i = 0; i != builder.numOperands(); ++i)
    expectOutputShape(builder, builder.inputType(i).shape);
  std::vector<memory::desc> sources = bindSources(builder);
  memory::desc result = builder.output(DNNL_ARG_DST);
  return builder.finish(dnnl::sum::primitive_desc(result, scales, sources, engine(), builder.attributes()));
}

Primitive buildConcat(Builder &builder) {
  builder.expectOperands(1, 4096);
  int axis = builder.axis(builder.outputType().shape.size());
  std::vector<int64_t> shape = builder.inputType(0).shape;
  for (size_t i = 0; i != builder.numOperands(); ++i) {
    std::vector<int64_t> other = builder.inputType(i).shape;
    if (other.size() != builder.outputType().shape.size())
      refuse(Status::Rejected, "input ", i, " expects ", builder.outputType().shape.size(), " dimensions, got ",
             other.size());
    if (i != 0 && __builtin_add_overflow(shape[axis], other[axis], &shape[axis]))
      refuse(Status::Rejected, "the sizes of dimension ", axis, " overflow");
    other[axis] = shape[axis];
    if (other != shape)
      refuse(Status::Rejected, "input ", i, " does not fit the others outside dimension ", axis, ", got ",
             builder.inputType(i).text());
  }
  expectOutputShape(builder, shape);
  std::vector<memory::desc> sources = bindSources(builder);
  memory::desc result = builder.output(DNNL_ARG_DST);
  return builder.finish(dnnl::concat::primitive_desc(result, axis, sources, engine(), builder.attributes()));
}

Primitive buildReorder(Builder &builder) {
  builder.expectOperands(1, 1);
  if (builder.anyInput(0) || builder.anyOutput())
    refuse(Status::Rejected, "expects both layouts to be given");
  const TensorType &from = builder.inputType(0), &to = builder.outputType();
  std::vector<int64_t> view = isDense(from) ? to.shape : from.shape;
  memory::desc source = builder.input(0, DNNL_ARG_FROM, view);
  memory::desc target = builder.output(DNNL_ARG_TO, view);
  return builder.finish(dnnl::reorder::primitive_desc(engine(), source, engine(), target, builder.attributes(view)));
}

} // namespace cleave::runtime::onednn
