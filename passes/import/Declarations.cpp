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

/// How `declared` contradicts the type that a value has. What is left out, and sizes that have only a name or are no
/// sizes, say nothing.
struct Contradiction {
  std::string expected; ///< What the model declares; empty where nothing contradicts.
  std::string found;
  bool isSize = false; ///< Only a size differs.
};

static Contradiction contradiction(const onnx::TypeProto &declared, RankedTensorType type) {
  if (!declared.has_tensor_type())
    return {};
  const onnx::TypeProto::Tensor &tensor = declared.tensor_type();
  auto text = [](Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  };
  Type element = elementTypeFromOnnx(type.getContext(), tensor.elem_type());
  if (element && element != type.getElementType())
    return {"elements of " + text(element), text(type.getElementType())};
  if (!tensor.has_shape())
    return {};
  if (tensor.shape().dim_size() != type.getRank())
    return {std::to_string(tensor.shape().dim_size()) + " dimensions", std::to_string(type.getRank())};
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const auto &dim = tensor.shape().dim(i);
    if (dim.has_dim_value() && dim.dim_value() > 0 && dim.dim_value() != type.getDimSize(i))
      return {std::to_string(dim.dim_value()) + " in dimension " + std::to_string(i),
              std::to_string(type.getDimSize(i)), true};
  }
  return {};
}

/// A model whose inputs somebody gave other sizes often has the old ones elsewhere: what operators give is right there.
LogicalResult GraphImporter::checkDeclaredTypes(const Scope &scope) {
  std::string first;
  unsigned others = 0;
  for (const auto &infos : {&model->graph().value_info(), &model->graph().output()})
    for (const onnx::ValueInfoProto &info : *infos) {
      ImportedValue *value = scope.values.lookup(info.name());
      Contradiction found = value ? contradiction(info.type(), value->type) : Contradiction();
      // A microbatch has other sizes than the model says.
      if (found.expected.empty() || (found.isSize && samples))
        continue;
      std::string subject = "the value \"" + info.name() + "\" expects ";
      for (const onnx::NodeProto &node : model->graph().node())
        if (llvm::is_contained(node.output(), info.name()))
          subject = "node \"" + (node.name().empty() ? node.output(0) : node.name()) + "\" (" + node.op_type() +
                    ") expects its result \"" + info.name() + "\" to have ";
      std::string text = subject + found.expected + ", as the model declares, got " + found.found;
      if (!found.isSize)
        return fail(ImportFailure::Rejected, text);
      others += !first.empty();
      if (first.empty())
        first = text;
    }
  if (first.empty())
    return success();
  InFlightDiagnostic warning = emitWarning(UnknownLoc::get(module->getContext())) << first;
  if (others > 0)
    warning << "; so have " << others << " more";
  warning << "; what the operators give is taken";
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
