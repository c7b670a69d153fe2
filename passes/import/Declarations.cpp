// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a model says besides its operators: the types of values, which must be those that the operators give, and
// attributes, of which ONNX's own schemas know the names.

#include "passes/import/GraphImporter.h"
#include "passes/import/NodeImporter.h"

#include "onnx/defs/schema.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace cleave {

/// How `declared` contradicts the type that a value has; empty where it does not. Sizes count only with `fixed`. What
/// is left out, and sizes that have only a name or are no sizes, say nothing.
static std::string contradiction(const onnx::TypeProto &declared, RankedTensorType type, bool fixed) {
  if (!declared.has_tensor_type())
    return "";
  const onnx::TypeProto::Tensor &tensor = declared.tensor_type();
  std::string text;
  llvm::raw_string_ostream stream(text);
  Type element = elementTypeFromOnnx(type.getContext(), tensor.elem_type());
  if (element && element != type.getElementType()) {
    stream << "elements of " << element << ", as the model declares, got " << type.getElementType();
    return text;
  }
  if (!tensor.has_shape())
    return "";
  if (tensor.shape().dim_size() != type.getRank()) {
    stream << tensor.shape().dim_size() << " dimensions, as the model declares, got " << type.getRank();
    return text;
  }
  for (int i = 0; fixed && i < tensor.shape().dim_size(); ++i) {
    const auto &dim = tensor.shape().dim(i);
    if (!dim.has_dim_value() || dim.dim_value() <= 0 || dim.dim_value() == type.getDimSize(i))
      continue;
    stream << dim.dim_value() << " in dimension " << i << ", as the model declares, got " << type.getDimSize(i);
    return text;
  }
  return "";
}

LogicalResult GraphImporter::checkDeclaredTypes(const Scope &scope) {
  for (const auto &infos : {&model->graph().value_info(), &model->graph().output()})
    for (const onnx::ValueInfoProto &info : *infos) {
      ImportedValue *value = scope.values.lookup(info.name());
      // A microbatch has other sizes than the model says.
      std::string found = value ? contradiction(info.type(), value->type, /*fixed=*/!options.samples) : "";
      if (found.empty())
        continue;
      for (const onnx::NodeProto &node : model->graph().node())
        if (llvm::is_contained(node.output(), info.name()))
          return fail(ImportFailure::Rejected, "node \"" + (node.name().empty() ? node.output(0) : node.name()) +
                                                   "\" (" + node.op_type() + ") expects its result \"" + info.name() +
                                                   "\" to have " + found);
      return fail(ImportFailure::Rejected, "the value \"" + info.name() + "\" expects " + found);
    }
  return success();
}

void GraphImporter::warnOfAttributes(const NodeImporter &node) {
  const onnx::NodeProto &proto = node.getProto();
  if (proto.attribute().empty() || !proto.domain().empty())
    return;
  const auto &versions = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  auto range = versions.find("");
  const onnx::OpSchema *schema =
      onnx::OpSchemaRegistry::Schema(proto.op_type(), static_cast<int>(node.getVersion()), "");
  if (!schema || range == versions.end())
    return;
  // Of later operator sets the schemas know nothing; what the import asks for is right there.
  bool isLater = node.getVersion() > range->second.second;
  for (const onnx::AttributeProto &attribute : proto.attribute()) {
    const std::string &name = attribute.name();
    if (schema->attributes().count(name) || name == "ctx_group" || (isLater && node.asksFor(name)))
      continue;
    // A subgraph's nodes are imported for each of its runs.
    if (warned.insert(proto.op_type() + " " + proto.name() + " " + name).second)
      emitWarning(node.getLoc()) << "node \"" << node.getName() << "\" (" << proto.op_type() << ") has the attribute \""
                                 << name << "\", which operator set " << node.getVersion()
                                 << " does not define; it may be misspelt";
  }
}

} // namespace cleave
