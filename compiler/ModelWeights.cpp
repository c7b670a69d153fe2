// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Edits the model as a message, so that all else of it stays as it was.

#include "compiler/ModelWeights.h"

#include "passes/import/OnnxProto.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cstring>

namespace cleave {

using runtime::ElementType;

/// ONNX's number of an element type; 0 where it has none.
static int onnxType(ElementType type) {
  using onnx::TensorProto;
  static constexpr std::pair<ElementType, int> types[] = {
      {ElementType::F64, TensorProto::DOUBLE},  {ElementType::F32, TensorProto::FLOAT},
      {ElementType::F16, TensorProto::FLOAT16}, {ElementType::BF16, TensorProto::BFLOAT16},
      {ElementType::I64, TensorProto::INT64},   {ElementType::I32, TensorProto::INT32},
      {ElementType::I16, TensorProto::INT16},   {ElementType::I8, TensorProto::INT8},
      {ElementType::U8, TensorProto::UINT8}};
  for (auto [known, number] : types)
    if (known == type)
      return number;
  return onnx::TensorProto::UNDEFINED;
}

static const onnx::TensorProto *findInitializer(const onnx::GraphProto &graph, const std::string &name) {
  auto found = llvm::find_if(graph.initializer(), [&](const onnx::TensorProto &it) { return it.name() == name; });
  return found == graph.initializer().end() ? nullptr : &*found;
}

/// The place of the node that makes a value out of nothing but initializers, as those that draw or repeat numbers do;
/// the number of nodes where there is none.
static int findSource(const onnx::GraphProto &graph, const std::string &name) {
  llvm::StringSet<> constants;
  for (const onnx::TensorProto &tensor : graph.initializer())
    constants.insert(tensor.name());
  for (int node = 0; node != graph.node_size(); ++node) {
    const onnx::NodeProto &proto = graph.node(node);
    if (!llvm::all_of(proto.input(), [&](const std::string &input) { return constants.contains(input); }))
      continue;
    if (proto.output_size() == 1 && proto.output(0) == name)
      return node;
    for (const std::string &output : proto.output())
      constants.insert(output);
  }
  return graph.node_size();
}

static std::string bracketed(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i != shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

/// The shape of what such a node makes, where it says it.
static std::optional<std::vector<int64_t>> shapeOf(const onnx::GraphProto &graph, const onnx::NodeProto &node) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == "shape")
      return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
  const onnx::TensorProto *shape =
      node.op_type() == "ConstantOfShape" && node.input_size() == 1 ? findInitializer(graph, node.input(0)) : nullptr;
  if (!shape || shape->data_type() != onnx::TensorProto::INT64)
    return std::nullopt;
  std::vector<int64_t> sizes(shape->int64_data().begin(), shape->int64_data().end());
  if (const std::string &raw = shape->raw_data(); sizes.empty() && raw.size() % sizeof(int64_t) == 0) {
    sizes.resize(raw.size() / sizeof(int64_t));
    std::memcpy(sizes.data(), raw.data(), raw.size());
  }
  return sizes;
}

static Error checkWeight(const onnx::GraphProto &graph, const std::string &name, const runtime::TensorType &type,
                         const std::string &source) {
  const onnx::TensorProto *own = findInitializer(graph, name);
  int node = own ? graph.node_size() : findSource(graph, name);
  if (!own && node == graph.node_size())
    return makeError(Status::Failure, source, " expects the names of the model's weights, got \"", name,
                     "\", which is none of them");
  if (onnxType(type.element) == onnx::TensorProto::UNDEFINED)
    return makeError(Status::Unsupported, source, ": a model here cannot hold \"", name, "\" of ", type.text());
  std::optional<std::vector<int64_t>> shape =
      own ? std::vector<int64_t>(own->dims().begin(), own->dims().end()) : shapeOf(graph, graph.node(node));
  if ((shape && *shape != type.shape) || (own && own->data_type() != onnxType(type.element)))
    return makeError(Status::Failure, source, " expects ", own ? onnxTypeName(own->data_type()) + " " : "",
                     bracketed(*shape), " for \"", name, "\", got ", type.text());
  return Error::success();
}

Error checkWeights(const onnx::ModelProto &model, std::span<const std::pair<std::string, runtime::TensorType>> weights,
                   const std::string &source) {
  for (const auto &[name, type] : weights)
    if (Error error = checkWeight(model.graph(), name, type, source))
      return error;
  return Error::success();
}

Error putWeights(onnx::ModelProto &model, std::span<const runtime::ArchiveMember> weights, const std::string &source) {
  onnx::GraphProto &graph = *model.mutable_graph();
  for (const runtime::ArchiveMember &weight : weights) {
    const runtime::TensorType &type = weight.tensor.type();
    if (Error error = checkWeight(graph, weight.name, type, source))
      return error;
    onnx::TensorProto tensor;
    tensor.set_name(weight.name);
    tensor.set_data_type(onnxType(type.element));
    tensor.mutable_dims()->Add(type.shape.begin(), type.shape.end());
    tensor.set_raw_data(weight.tensor.bytes().data(), weight.tensor.bytes().size());
    if (const onnx::TensorProto *own = findInitializer(graph, weight.name)) {
      *const_cast<onnx::TensorProto *>(own) = std::move(tensor);
      continue;
    }
    graph.mutable_node()->DeleteSubrange(findSource(graph, weight.name), 1);
    *graph.add_initializer() = std::move(tensor);
  }
  return Error::success();
}

} // namespace cleave
