// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers as ONNX nodes, and weights as nodes or as numbers.

#include "passes/zoo/ModelBuilder.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace cleave {

void setInt(onnx::NodeProto &node, const std::string &name, int64_t value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void setString(onnx::NodeProto &node, const std::string &name, const std::string &value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}

void setFloat(onnx::NodeProto &node, const std::string &name, float value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}

void setInts(onnx::NodeProto &node, const std::string &name, const std::vector<int64_t> &values) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

void setTensor(onnx::NodeProto &node, int elementType, const std::vector<int64_t> &shape, std::string bytes) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  attribute.mutable_t()->set_data_type(elementType);
  for (int64_t size : shape)
    attribute.mutable_t()->add_dims(size);
  attribute.mutable_t()->set_raw_data(std::move(bytes));
}

/// `dims`: names of dimensions without a size; empty for those that have one.
static void setType(onnx::ValueInfoProto &info, const Layer &layer, const std::vector<std::string> &dims) {
  info.set_name(layer.name);
  onnx::TypeProto::Tensor &type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(layer.elementType);
  for (size_t i = 0; i != layer.shape.size(); ++i) {
    onnx::TensorShapeProto::Dimension &dim = *type.mutable_shape()->add_dim();
    if (i < dims.size() && !dims[i].empty())
      dim.set_dim_param(dims[i]);
    else
      dim.set_dim_value(layer.shape[i]);
  }
}

int64_t product(const std::vector<int64_t> &shape, size_t from) {
  return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(from), shape.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

ModelBuilder::ModelBuilder(const std::string &name, const ZooOptions &options, std::map<std::string, int64_t> numbers)
    : options(options), numbers(std::move(numbers)) {
  model.set_producer_name("cleave");
  model.add_opset_import()->set_domain("");
  setVersion(17, 8);
  model.mutable_graph()->set_name(name);
}

void ModelBuilder::setVersion(int64_t operatorSet, int64_t irVersion) {
  model.mutable_opset_import(0)->set_version(operatorSet);
  model.set_ir_version(irVersion);
}

void ModelBuilder::addDomain(const std::string &domain) {
  onnx::OperatorSetIdProto &added = *model.add_opset_import();
  added.set_domain(domain);
  added.set_version(1);
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

std::string ModelBuilder::filled(const std::string &name, const std::vector<int64_t> &shape, float value) {
  if (options.weights) {
    std::string bytes;
    for (int64_t i = 0; i < product(shape); ++i)
      bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
    addInitializer(*model.mutable_graph(), name, onnx::TensorProto::FLOAT, shape, std::move(bytes));
    return name;
  }
  onnx::NodeProto &fill = node("ConstantOfShape", name, {integers(name + ".shape", shape)});
  if (value != 0.0f)
    setTensor(fill, onnx::TensorProto::FLOAT, {1}, std::string(reinterpret_cast<const char *>(&value), sizeof(value)));
  return name;
}

std::string ModelBuilder::integers(const std::string &name, const std::vector<int64_t> &values) {
  addInitializer(*model.mutable_graph(), name, onnx::TensorProto::INT64, {static_cast<int64_t>(values.size())},
                 std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(int64_t)));
  return name;
}

std::string ModelBuilder::number(const std::string &name, float value) {
  setTensor(node("Constant", name, {}), onnx::TensorProto::FLOAT, {},
            std::string(reinterpret_cast<const char *>(&value), sizeof(value)));
  return name;
}

//===-- layers ------------------------------------------------------------------------------------------------===//

Layer ModelBuilder::input(const std::string &name, std::vector<int64_t> shape, int elementType,
                          const std::vector<std::string> &dims) {
  Layer layer{name, std::move(shape), elementType};
  setType(*model.mutable_graph()->add_input(), layer, openAmong(dims));
  return layer;
}

std::vector<std::string> ModelBuilder::openAmong(std::vector<std::string> dims) const {
  for (std::string &dim : dims)
    if (std::find(options.symbolic.begin(), options.symbolic.end(), dim) == options.symbolic.end())
      dim.clear();
  return dims;
}

Layer ModelBuilder::dense(const std::string &name, const Layer &input, int64_t units, bool bias) {
  int64_t inputs = input.shape.back();
  std::string matrix = weight(name + ".weight", {inputs, units}, inputs);
  std::vector<int64_t> shape = input.shape;
  shape.back() = units;
  if (input.shape.size() == 2) {
    std::vector<std::string> operands = {input.name, matrix};
    if (bias)
      operands.push_back(filled(name + ".bias", {units}, 0.0f));
    node("Gemm", name, operands);
    return {name, shape};
  }
  node("MatMul", name, {input.name, matrix});
  if (!bias)
    return {name, shape};
  node("Add", name + ".add", {name, filled(name + ".bias", {units}, 0.0f)});
  return {name + ".add", shape};
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

Layer ModelBuilder::join(const std::string &name, const std::string &kind, const Layer &input,
                         const std::string &operand) {
  node(kind, name, {input.name, operand});
  return {name, input.shape};
}

void ModelBuilder::addOutput(const std::string &name, const Layer &output, const std::vector<std::string> &dims) {
  node("Identity", name, {output.name});
  setType(*model.mutable_graph()->add_output(), {name, output.shape}, openAmong(dims));
}

onnx::ModelProto ModelBuilder::finish(const std::string &name, const Layer &output,
                                      const std::vector<std::string> &dims) {
  addOutput(name, output, dims);
  return std::move(model);
}

} // namespace cleave
