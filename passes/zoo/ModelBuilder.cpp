// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers as ONNX nodes, and weights as nodes or as numbers.

#include "passes/zoo/ModelBuilder.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace cleave {

static constexpr int64_t irVersion = 8, operatorSet = 17;

static void setInt(onnx::NodeProto &node, const std::string &name, int64_t value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

static void setFloat(onnx::NodeProto &node, const std::string &name, float value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}

static void setInts(onnx::NodeProto &node, const std::string &name, const std::vector<int64_t> &values) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

static void setType(onnx::ValueInfoProto &info, const Layer &layer) {
  info.set_name(layer.name);
  onnx::TypeProto::Tensor &type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (int64_t size : layer.shape)
    type.mutable_shape()->add_dim()->set_dim_value(size);
}

static int64_t product(const std::vector<int64_t> &shape, size_t from = 0) {
  return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(from), shape.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

ModelBuilder::ModelBuilder(const std::string &name, const ZooOptions &options, std::map<std::string, int64_t> numbers)
    : options(options), numbers(std::move(numbers)) {
  model.set_ir_version(irVersion);
  model.set_producer_name("cleave");
  onnx::OperatorSetIdProto &set = *model.add_opset_import();
  set.set_domain("");
  set.set_version(operatorSet);
  model.mutable_graph()->set_name(name);
}

onnx::NodeProto &ModelBuilder::node(const std::string &kind, const std::string &name,
                                    const std::vector<std::string> &inputs) {
  onnx::NodeProto &result = *model.mutable_graph()->add_node();
  result.set_op_type(kind);
  result.set_name(name);
  for (const std::string &input : inputs)
    result.add_input(input);
  result.add_output(name);
  return result;
}

//===-- weights -----------------------------------------------------------------------------------------------===//

/// A number in [0, 1) that depends on seed and counter alone: SplitMix64 (Steele, Lea, Flood 2014), as the runtime
/// draws parameters that a plan only describes.
static double uniform(uint64_t seed, uint64_t counter) {
  uint64_t word = seed + (counter + 1) * 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((word ^ (word >> 31)) >> 11) * 0x1p-53;
}

/// Normally distributed numbers in pairs (Box and Muller 1958).
static std::string drawNormal(uint64_t seed, double deviation, int64_t count) {
  std::string bytes(static_cast<size_t>(count) * sizeof(float), '\0');
  for (int64_t i = 0; i < count; ++i) {
    uint64_t pair = static_cast<uint64_t>(i) & ~uint64_t(1);
    double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(seed, pair)));
    double angle = 2.0 * std::numbers::pi * uniform(seed, pair + 1);
    auto value = static_cast<float>(deviation * radius * (i % 2 ? std::sin(angle) : std::cos(angle)));
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return bytes;
}

static void addInitializer(onnx::GraphProto &graph, const std::string &name, int type,
                           const std::vector<int64_t> &shape, std::string bytes) {
  onnx::TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (int64_t size : shape)
    tensor.add_dims(size);
  tensor.set_raw_data(std::move(bytes));
}

std::string ModelBuilder::weight(const std::string &name, const std::vector<int64_t> &shape, int64_t inputs) {
  // Seeds are floats in ONNX: small whole numbers go through unchanged.
  uint64_t seed = (options.seed * 4099 + ++numWeights) % (1 << 24);
  auto spread = static_cast<float>(deviation > 0 ? deviation : std::sqrt(2.0 / static_cast<double>(inputs)));
  if (options.weights) {
    addInitializer(*model.mutable_graph(), name, onnx::TensorProto::FLOAT, shape,
                   drawNormal(seed, spread, product(shape)));
    return name;
  }
  onnx::NodeProto &random = node("RandomNormal", name, {});
  setFloat(random, "mean", 0.0f);
  setFloat(random, "scale", spread);
  setFloat(random, "seed", static_cast<float>(seed));
  setInts(random, "shape", shape);
  return name;
}

std::string ModelBuilder::zeros(const std::string &name, int64_t size) {
  if (options.weights) {
    addInitializer(*model.mutable_graph(), name, onnx::TensorProto::FLOAT, {size},
                   std::string(static_cast<size_t>(size) * sizeof(float), '\0'));
    return name;
  }
  std::string shape(sizeof(int64_t), '\0');
  std::memcpy(shape.data(), &size, sizeof(size));
  addInitializer(*model.mutable_graph(), name + ".shape", onnx::TensorProto::INT64, {1}, shape);
  node("ConstantOfShape", name, {name + ".shape"});
  return name;
}

//===-- layers ------------------------------------------------------------------------------------------------===//

Layer ModelBuilder::input(const std::string &name, std::vector<int64_t> shape) {
  Layer layer{name, std::move(shape)};
  setType(*model.mutable_graph()->add_input(), layer);
  return layer;
}

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

Layer ModelBuilder::conv(const std::string &name, const Layer &input, int64_t channels, Slide slide, int64_t groups) {
  int64_t perGroup = input.shape[1] / groups;
  std::string filter = weight(name + ".weight", {channels, perGroup, slide.window, slide.window},
                              perGroup * slide.window * slide.window);
  std::string bias = zeros(name + ".bias", channels);
  onnx::NodeProto &conv = node("Conv", name, {input.name, filter, bias});
  setSlide(conv, slide);
  setInt(conv, "group", groups);
  return {name, {input.shape[0], channels, slideOver(input.shape[2], slide), slideOver(input.shape[3], slide)}};
}

Layer ModelBuilder::dense(const std::string &name, const Layer &input, int64_t units) {
  std::string matrix = weight(name + ".weight", {input.shape[1], units}, input.shape[1]);
  std::string bias = zeros(name + ".bias", units);
  node("Gemm", name, {input.name, matrix, bias});
  return {name, {input.shape[0], units}};
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

Layer ModelBuilder::concat(const std::string &name, const std::vector<Layer> &inputs) {
  Layer result{name, inputs.front().shape};
  result.shape[1] = 0;
  std::vector<std::string> names;
  for (const Layer &input : inputs) {
    names.push_back(input.name);
    result.shape[1] += input.shape[1];
  }
  setInt(node("Concat", name, names), "axis", 1);
  return result;
}

Layer ModelBuilder::apply(const std::string &name, const std::string &kind, const Layer &input) {
  node(kind, name, {input.name});
  return {name, input.shape};
}

onnx::ModelProto ModelBuilder::finish(const std::string &name, const Layer &output) {
  node("Identity", name, {output.name});
  setType(*model.mutable_graph()->add_output(), {name, output.shape});
  return std::move(model);
}

} // namespace cleave
