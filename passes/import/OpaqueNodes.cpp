// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nodes that Cleave does not know: opaque operators with the model's attributes, of the types that the model states or
// that ONNX's own shape inference finds.

#include "dialects/interfaces/SplitRule.h"
#include "passes/import/GraphImporter.h"
#include "passes/import/InferTypes.h"
#include "passes/import/NodeImporter.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace cleave {

/// Tensors up to this size are kept in the attributes of opaque operators, and shown to shape inference.
static constexpr int64_t largestKeptTensor = 4096;

static Attribute keepAttribute(OpBuilder &builder, NodeImporter &node, const onnx::AttributeProto &attribute) {
  switch (attribute.type()) {
  case onnx::AttributeProto::INT:
    return builder.getI64IntegerAttr(attribute.i());
  case onnx::AttributeProto::FLOAT:
    return builder.getF32FloatAttr(attribute.f());
  case onnx::AttributeProto::STRING:
    return builder.getStringAttr(attribute.s());
  case onnx::AttributeProto::INTS:
    return builder.getDenseI64ArrayAttr(SmallVector<int64_t>(attribute.ints().begin(), attribute.ints().end()));
  case onnx::AttributeProto::FLOATS:
    return builder.getDenseF32ArrayAttr(SmallVector<float>(attribute.floats().begin(), attribute.floats().end()));
  case onnx::AttributeProto::STRINGS: {
    SmallVector<StringRef> strings;
    for (const std::string &text : attribute.strings())
      strings.push_back(text);
    return builder.getStrArrayAttr(strings);
  }
  default:
    return builder.getStringAttr("<" + onnx::AttributeProto::AttributeType_Name(attribute.type()) + ">");
  }
}

/// A copy of the model for shape inference, without large weights and with the inputs' sizes filled in.
static std::unique_ptr<onnx::ModelProto> makeSketch(const onnx::ModelProto &model, ArrayRef<ImportedValue *> inputs) {
  auto sketch = std::make_unique<onnx::ModelProto>();
  sketch->set_ir_version(model.ir_version());
  *sketch->mutable_opset_import() = model.opset_import();
  *sketch->mutable_functions() = model.functions();
  onnx::GraphProto &graph = *sketch->mutable_graph();
  graph.set_name(model.graph().name());
  *graph.mutable_node() = model.graph().node();
  *graph.mutable_value_info() = model.graph().value_info();
  *graph.mutable_output() = model.graph().output();
  for (const onnx::TensorProto &tensor : model.graph().initializer()) {
    bool small = static_cast<int64_t>(tensor.ByteSizeLong()) <= largestKeptTensor;
    if (small && tensor.data_location() != onnx::TensorProto::EXTERNAL) {
      *graph.add_initializer() = tensor;
    } else {
      onnx::ValueInfoProto &input = *graph.add_input();
      input.set_name(tensor.name());
      input.mutable_type()->mutable_tensor_type()->set_elem_type(tensor.data_type());
      for (int64_t size : tensor.dims())
        input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(size);
    }
  }
  for (const onnx::ValueInfoProto &input : model.graph().input()) {
    auto known = llvm::find_if(inputs, [&](ImportedValue *value) { return value->name == input.name(); });
    if (known == inputs.end())
      continue;
    onnx::ValueInfoProto &copy = *graph.add_input();
    copy = input;
    auto &shape = *copy.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    for (int64_t size : (*known)->type.getShape())
      shape.add_dim()->set_dim_value(size);
  }
  return sketch;
}

static bool isComplete(const onnx::TypeProto &type, const std::map<std::string, int64_t> &dims) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape())
    return !type.has_tensor_type() && type.value_case() != onnx::TypeProto::VALUE_NOT_SET;
  return llvm::all_of(type.tensor_type().shape().dim(), [&](const onnx::TensorShapeProto::Dimension &dim) {
    return dim.has_dim_value() || dims.count(dim.dim_param());
  });
}

std::optional<onnx::TypeProto> GraphImporter::opaqueType(const std::string &output) {
  auto declared = declaredTypes.find(output);
  if (declared != declaredTypes.end() && isComplete(*declared->second, dims))
    return *declared->second;
  if (!inferred) {
    SmallVector<ImportedValue *> inputs;
    for (auto [argument, value] : graphInputs)
      inputs.push_back(value);
    inferred = std::make_unique<onnx::GraphProto>(inferTypes(*makeSketch(*model, inputs)));
    for (const auto &infos : {&inferred->value_info(), &inferred->output()})
      for (const onnx::ValueInfoProto &info : *infos)
        if (isComplete(info.type(), dims))
          declaredTypes[info.name()] = &info.type();
  }
  declared = declaredTypes.find(output);
  if (declared != declaredTypes.end() && isComplete(*declared->second, dims))
    return *declared->second;
  return std::nullopt;
}

LogicalResult GraphImporter::importOpaque(Scope &scope, NodeImporter &node, StringRef reason) {
  auto refuse = [&](const Twine &message) {
    noteFailure(ImportFailure::Unsupported);
    return emitError(node.getLoc()) << "node \"" << node.getName() << "\" (" << node.getKind() << ") " << message
                                    << " (" << reason << ")";
  };
  node.eraseOperations();
  OpBuilder builder = builderAtEnd();
  SmallVector<Type> types;
  SmallVector<int> outputs;
  for (int i = 0; i < node.getProto().output_size(); ++i) {
    const std::string &output = node.getProto().output(i);
    if (output.empty())
      continue;
    std::optional<onnx::TypeProto> type;
    if (scope.prefix.empty())
      type = opaqueType(output);
    if (!type)
      return refuse("is not known, and the model does not state the type of its result \"" + output + "\"");
    Type element = type->has_tensor_type() ? elementTypeFromOnnx(context, type->tensor_type().elem_type()) : Type();
    if (!element)
      return refuse("is not known, and its result \"" + output + "\" is " +
                    (type->has_tensor_type() ? "of " + onnxTypeName(type->tensor_type().elem_type()) : "no tensor"));
    SmallVector<int64_t> shape;
    for (const auto &dim : type->tensor_type().shape().dim())
      shape.push_back(dim.has_dim_value() ? dim.dim_value() : dims[dim.dim_param()]);
    auto tensorType = makeTensorType(shape, element);
    if (!tensorType)
      return node.error("states a result that " + llvm::toString(tensorType.takeError()));
    types.push_back(*tensorType);
    outputs.push_back(i);
  }
  SmallVector<Value> operands;
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (Value value = node.input(i))
      operands.push_back(value);
  SmallVector<NamedAttribute> kept;
  for (const onnx::AttributeProto &attribute : node.getProto().attribute())
    if (!attribute.name().empty() && attribute.name() != "ctx_group" &&
        llvm::none_of(kept, [&](NamedAttribute other) { return other.getName() == attribute.name(); }))
      kept.push_back(builder.getNamedAttr(attribute.name(), keepAttribute(builder, node, attribute)));
  std::string kind = node.getProto().domain().empty() ? node.getProto().op_type()
                                                      : node.getProto().domain() + "." + node.getProto().op_type();
  auto op = dfg::OpaqueOp::create(builder, node.getLoc(), types, kind, operands,
                                  kept.empty() ? DictionaryAttr() : builder.getDictionaryAttr(kept));
  node.addOperation(op);
  useAtRunTime(node);
  for (auto [placeholder, value] : node.getPlaceholders())
    if (placeholder.use_empty())
      placeholder.getDefiningOp()->erase();
  for (auto [index, output] : llvm::enumerate(outputs)) {
    const std::string &name = node.getProto().output(output);
    ImportedValue *value = addValue(scope.prefix + name, cast<RankedTensorType>(types[index]));
    value->value = op->getResult(index);
    if (failed(define(scope, name, value)))
      return failure();
  }
  report.unsupported.push_back({node.getName().str(), node.getKind().str(), reason.str()});
  return success();
}

} // namespace cleave
