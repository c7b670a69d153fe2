// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolution, deconvolution, matrix product and inner product.

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cpu/OneDnnOperations.h"
#include "runtime/drivers/cpu/OneDnnWindow.h"
#include "runtime/drivers/cpu/OneDnnWinograd.h"

#include <algorithm>
#include <numeric>

namespace cleave::runtime::onednn {

using dnnl::memory;
using dnnl::prop_kind;

std::vector<int64_t> weightView(const Builder &builder, const TensorType &weights, int64_t groups) {
  size_t rank = builder.inputType(0).shape.size();
  std::vector<int64_t> shape = weights.shape;
  if (shape.size() == rank + 1 && shape[0] == groups)
    return shape;
  if (shape.size() != rank || shape[0] % groups != 0)
    refuse(Status::Rejected, "weights expect ", rank, " dimensions, the first a multiple of ", groups, ", or ", groups,
           " and ", rank, " more, got ", weights.text());
  if (groups != 1) {
    shape[0] /= groups;
    shape.insert(shape.begin(), groups);
  }
  return shape;
}

/// An optional bias of `channels` values, or a zero descriptor.
static memory::desc bindBias(Builder &builder, size_t index, std::vector<int64_t> view) {
  return index < builder.numOperands() ? builder.inputOr(index, DNNL_ARG_BIAS, std::nullopt, std::move(view))
                                       : memory::desc();
}

/// Products of integers are those of unsigned by signed ones: oneDNN shifts others, by way of weights that a plan
/// cannot record.
static void checkElements(const Builder &builder, uint64_t depth) {
  auto isInteger = [](ElementType type) { return !isFloatingPoint(type); };
  ElementType left = builder.inputType(0).element, right = builder.inputType(1).element;
  if (!isInteger(left) && !isInteger(right))
    return;
  if (left != ElementType::U8 || right != ElementType::I8)
    refuse(Status::Unsupported, "expects elements ", elementName(ElementType::U8), " and ",
           elementName(ElementType::I8), " to multiply integers, got ", elementName(left), " and ", elementName(right));
  if (!multipliesIntegers())
    refuse(Status::Unsupported, "sums of products of 8-bit integers saturate on this processor, which has no VNNI");
  // Code for AVX2 brings sums through float32.
  constexpr uint64_t exactProducts = (1 << 24) / (255 * 128);
  bool isWide =
      (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  if (!isWide && builder.outputType().element == ElementType::I32 && depth > exactProducts)
    refuse(Status::Unsupported, "sums of more than ", exactProducts,
           " products of 8-bit integers are rounded on this "
           "processor, which has no AVX-512, got ",
           depth);
}

Primitive buildConvolution(Builder &builder) {
  builder.expectOperands(2, 3);
  int64_t groups = builder.integer("groups", 1, 1);
  const TensorType &data = builder.inputType(0), &result = builder.outputType();
  dnnl::algorithm algorithm =
      convolutionAlgorithm(builder, dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd);
  bool isPacked = readsPackedWeights(builder);
  std::vector<int64_t> view =
      isPacked ? winogradWeightShape(builder, data, result) : weightView(builder, builder.inputType(1), groups);
  size_t spatial = view.size() - (data.shape.size() - 2);
  checkElements(builder, std::accumulate(view.begin() + static_cast<long>(spatial) - 1, view.end(), uint64_t(1),
                                         std::multiplies<>()));
  Window window = readWindow(builder, data, result, std::span(view).subspan(spatial));
  memory::desc source = builder.input(0, DNNL_ARG_SRC);
  memory::desc weights =
      isPacked ? builder.packedInput(1, DNNL_ARG_WEIGHTS, view) : builder.input(1, DNNL_ARG_WEIGHTS, view);
  memory::desc bias = bindBias(builder, 2, {result.shape[1]});
  memory::desc target = builder.output(DNNL_ARG_DST);
  // Weights that lie as they are are transformed in each call, as in training.
  bool transforms = algorithm == dnnl::algorithm::convolution_winograd && !isPacked;
  dnnl::convolution_forward::desc desc(transforms ? prop_kind::forward_training : prop_kind::forward_inference,
                                       algorithm, source, weights, bias, target, window.strides, window.dilations,
                                       window.padsBegin, window.padsEnd);
  Primitive made = builder.finish(describe(desc, builder.attributes(result.shape, 1)));
  if (isPacked)
    checkPackedFormat(builder, made.inputs[1].memory);
  return made;
}

Primitive buildConvolutionWeights(Builder &builder) {
  builder.expectOperands(2, 2);
  int64_t groups = builder.integer("groups", 1, 1);
  const TensorType &data = builder.inputType(0), &cotangent = builder.inputType(1);
  std::vector<int64_t> view = weightView(builder, builder.outputType(), groups);
  size_t spatial = view.size() - (data.shape.size() - 2);
  Window window = readWindow(builder, data, cotangent, std::span(view).subspan(spatial));
  memory::desc source = builder.input(0, DNNL_ARG_SRC);
  memory::desc target = builder.input(1, DNNL_ARG_DIFF_DST);
  memory::desc weights = builder.output(DNNL_ARG_DIFF_WEIGHTS, view);
  dnnl::algorithm algorithm =
      convolutionAlgorithm(builder, dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd);
  dnnl::convolution_forward::desc forward(prop_kind::forward_training, algorithm, source, weights, target,
                                          window.strides, window.dilations, window.padsBegin, window.padsEnd);
  dnnl::convolution_backward_weights::desc desc(algorithm, source, weights, target, window.strides, window.dilations,
                                                window.padsBegin, window.padsEnd);
  return builder.finish(describe(desc, builder.attributes(), describe(forward, {})));
}

Primitive buildDeconvolution(Builder &builder) {
  builder.expectOperands(2, 3);
  int64_t groups = builder.integer("groups", 1, 1);
  const TensorType &data = builder.inputType(0), &result = builder.outputType();
  std::vector<int64_t> view = weightView(builder, builder.inputType(1), groups);
  size_t channels = view.size() - data.shape.size();
  Window window = readWindow(builder, result, data, std::span(view).subspan(channels + 2));
  // The plan's weights are [C, O, ...] as in the model; oneDNN counts [O, C, ...].
  std::vector<unsigned> order(view.size());
  std::iota(order.begin(), order.end(), 0u);
  std::swap(order[channels], order[channels + 1]);
  memory::desc source = builder.input(0, DNNL_ARG_SRC);
  memory::desc weights = builder.input(1, DNNL_ARG_WEIGHTS, view, order);
  memory::desc bias = bindBias(builder, 2, {result.shape[1]});
  memory::desc target = builder.output(DNNL_ARG_DST);
  dnnl::algorithm algorithm =
      convolutionAlgorithm(builder, dnnl::algorithm::deconvolution_direct, dnnl::algorithm::deconvolution_winograd);
  dnnl::deconvolution_forward::desc desc(prop_kind::forward_inference, algorithm, source, weights, bias, target,
                                         window.strides, window.dilations, window.padsBegin, window.padsEnd);
  return builder.finish(describe(desc, builder.attributes()));
}

/// [..., M, K] as [rows, K] with all leading dimensions as rows.
static std::vector<int64_t> flattened(const std::vector<int64_t> &shape) {
  int64_t rows = std::accumulate(shape.begin(), shape.end() - 1, int64_t(1), std::multiplies<>());
  return {rows, shape.back()};
}

/// Row-major weights of a plain matrix product, whose rows are next to each other in the cache: with rows of a multiple
/// of 1 KiB, the few columns of many rows that the product goes through at a time share a few of the cache's sets, and
/// it has half its speed. A cache line between rows moves them apart. None where rows do not meet in the cache, or
/// where each is read for a single row of the result.
static std::optional<Layout> apartInCache(const TensorType &weights, int64_t rows) {
  constexpr int64_t together = 1024, line = 64;
  int64_t bytes = elementBytes(weights.element);
  if (weights.shape.size() != 2 || rows == 1 || weights.shape[1] * bytes % together != 0)
    return std::nullopt;
  Layout layout = denseLayout(weights.shape);
  layout.strides[0] += line / bytes;
  return layout;
}

Primitive buildMatmul(Builder &builder) {
  builder.expectOperands(2, 3);
  const TensorType &left = builder.inputType(0), &right = builder.inputType(1), &result = builder.outputType();
  size_t rank = result.shape.size();
  if (rank < 2 || left.shape.size() < 2 || right.shape.size() < 2 || left.shape.size() > rank ||
      right.shape.size() > rank)
    refuse(Status::Rejected, "expects [..., M, K] x [..., K, N] -> [..., M, N], got ", left.text(), " x ", right.text(),
           " -> ", result.text());
  checkElements(builder, static_cast<uint64_t>(left.shape.back()));
  std::vector<int64_t> leftView = widened(left.shape, rank), rightView = widened(right.shape, rank);
  std::vector<int64_t> resultView = result.shape;
  // One matrix on the right for all batches: the batches are rows of one larger product.
  if (rank > 2 && std::all_of(rightView.begin(), rightView.end() - 2, [](int64_t size) { return size == 1; }) &&
      left.shape.size() == rank && (builder.anyInput(0) || isDense(left)) && (builder.anyOutput() || isDense(result)) &&
      right.elementCount() == uint64_t(rightView.end()[-2] * rightView.back()) &&
      (builder.anyInput(1) || isDense(right) || right.shape.size() == 2)) {
    leftView = flattened(leftView);
    resultView = flattened(resultView);
    rightView = {rightView.end()[-2], rightView.back()};
  }
  memory::desc source = builder.input(0, DNNL_ARG_SRC, leftView);
  memory::desc weights = builder.input(1, DNNL_ARG_WEIGHTS, rightView);
  memory::desc bias = bindBias(builder, 2, widened({resultView.back()}, resultView.size()));
  memory::desc target = builder.output(DNNL_ARG_DST, resultView);
  dnnl::primitive_attr attributes = builder.attributes(resultView, static_cast<int>(resultView.size()) - 1);
  dnnl::primitive_desc_base made = describe(dnnl::matmul::desc(source, weights, bias, target), attributes);
  // Code that blocks weights does so itself; this one takes any rows, and asks for row-major ones.
  if (auto layout = apartInCache(right, leftView.end()[-2]); layout && builder.anyInput(1) &&
                                                             right.shape == rightView &&
                                                             std::string_view(made.impl_info_str()) == "gemm:jit") {
    weights = builder.inputOr(1, DNNL_ARG_WEIGHTS, layout);
    made = describe(dnnl::matmul::desc(source, weights, bias, target), attributes);
  }
  return builder.finish(made);
}

Primitive buildInnerProduct(Builder &builder) {
  builder.expectOperands(2, 3);
  const TensorType &result = builder.outputType();
  if (result.shape.size() != 2)
    refuse(Status::Rejected, "output expects [N, O], got ", result.text());
  memory::desc source = builder.input(0, DNNL_ARG_SRC);
  memory::desc weights = builder.input(1, DNNL_ARG_WEIGHTS);
  memory::desc bias = bindBias(builder, 2, {result.shape[1]});
  memory::desc target = builder.output(DNNL_ARG_DST);
  dnnl::inner_product_forward::desc desc(prop_kind::forward_inference, source, weights, bias, target);
  return builder.finish(describe(desc, builder.attributes()));
}

} // namespace cleave::runtime::onednn
