// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers of convolutional networks as ONNX nodes.

#include "passes/zoo/ModelBuilder.h"

namespace cleave {

/// The image's size after a window slid over it.
static int64_t slideOver(int64_t size, const Slide &slide) {
  int64_t room = size + 2 * slide.pad - slide.window;
  return (slide.ceil ? (room + slide.stride - 1) / slide.stride : room / slide.stride) + 1;
}

static void setSlide(onnx::NodeProto &node, const Slide &slide) {
  setInts(node, "kernel_shape", {slide.window, slide.window});
  setInts(node, "strides", {slide.stride, slide.stride});
  setInts(node, "pads", {slide.pad, slide.pad, slide.pad, slide.pad});
}

Layer ModelBuilder::conv(const std::string &name, const Layer &input, int64_t channels, Slide slide, int64_t groups,
                         bool bias) {
  int64_t perGroup = input.shape[1] / groups;
  std::string filter = weight(name + ".weight", {channels, perGroup, slide.window, slide.window},
                              perGroup * slide.window * slide.window);
  std::vector<std::string> inputs = {input.name, filter};
  if (bias)
    inputs.push_back(filled(name + ".bias", {channels}, 0.0f));
  onnx::NodeProto &conv = node("Conv", name, inputs);
  setSlide(conv, slide);
  setInt(conv, "group", groups);
  return {name, {input.shape[0], channels, slideOver(input.shape[2], slide), slideOver(input.shape[3], slide)}};
}

Layer ModelBuilder::pool(const std::string &name, const Layer &input, const std::string &kind, Slide slide) {
  onnx::NodeProto &pool = node(kind, name, {input.name});
  setSlide(pool, slide);
  if (slide.ceil)
    setInt(pool, "ceil_mode", 1);
  return {name, {input.shape[0], input.shape[1], slideOver(input.shape[2], slide), slideOver(input.shape[3], slide)}};
}

Layer ModelBuilder::globalAverage(const std::string &name, const Layer &input) {
  node("GlobalAveragePool", name, {input.name});
  return {name, {input.shape[0], input.shape[1], 1, 1}};
}

Layer ModelBuilder::normalizeResponse(const std::string &name, const Layer &input, int64_t size, float alpha,
                                      float beta) {
  onnx::NodeProto &lrn = node("LRN", name, {input.name});
  setInt(lrn, "size", size);
  setFloat(lrn, "alpha", alpha);
  setFloat(lrn, "beta", beta);
  setFloat(lrn, "bias", 1.0f);
  return {name, input.shape};
}

Layer ModelBuilder::flatten(const std::string &name, const Layer &input) {
  node("Flatten", name, {input.name});
  return {name, {input.shape[0], product(input.shape, 1)}};
}

Layer ModelBuilder::upConv(const std::string &name, const Layer &input, int64_t channels, int64_t factor) {
  std::string filter = weight(name + ".weight", {input.shape[1], channels, factor, factor}, input.shape[1]);
  std::string bias = filled(name + ".bias", {channels}, 0.0f);
  setSlide(node("ConvTranspose", name, {input.name, filter, bias}), {factor, factor});
  return {name, {input.shape[0], channels, input.shape[2] * factor, input.shape[3] * factor}};
}

Layer ModelBuilder::batchNorm(const std::string &name, const Layer &input) {
  int64_t channels = input.shape[1];
  node("BatchNormalization", name,
       {input.name, filled(name + ".weight", {channels}, 1.0f), filled(name + ".bias", {channels}, 0.0f),
        filled(name + ".mean", {channels}, 0.0f), filled(name + ".variance", {channels}, 1.0f)});
  return {name, input.shape};
}

} // namespace cleave
