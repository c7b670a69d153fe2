// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls of functions that the model brings along: their bodies are imported in place, under the call's name.

#include "passes/import/GraphImporter.h"

using namespace mlir;

namespace cleave {

static constexpr unsigned deepestCall = 64;

const onnx::FunctionProto *GraphImporter::findFunction(const onnx::NodeProto &node) const {
  return functions.lookup(node.domain() + ":" + node.op_type());
}

/// The attribute's default in the function, which files of IR version 9 and later have (field 11 of FunctionProto) and
/// older schemas keep as an unknown field.
static bool findDefault(const onnx::FunctionProto &function, const std::string &name, onnx::AttributeProto &result) {
  const google::protobuf::UnknownFieldSet &unknown = function.unknown_fields();
  for (int i = 0; i < unknown.field_count(); ++i)
    if (unknown.field(i).number() == 11 &&
        unknown.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        result.ParseFromString(unknown.field(i).length_delimited()) && result.name() == name)
      return true;
  return false;
}

/// The body's node with the call's attributes in place of references to them.
static onnx::NodeProto substituteAttributes(const onnx::NodeProto &node, const onnx::NodeProto &call,
                                            const onnx::FunctionProto &function) {
  onnx::NodeProto result = node;
  result.clear_attribute();
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *result.add_attribute() = attribute;
      continue;
    }
    onnx::AttributeProto value;
    bool given = false;
    for (const onnx::AttributeProto &candidate : call.attribute())
      if (candidate.name() == attribute.ref_attr_name()) {
        value = candidate;
        given = true;
      }
    if (!given && !findDefault(function, attribute.ref_attr_name(), value))
      continue;
    value.set_name(attribute.name());
    *result.add_attribute() = std::move(value);
  }
  return result;
}

LogicalResult GraphImporter::importCall(Scope &scope, const onnx::NodeProto &call, const onnx::FunctionProto &function,
                                        StringRef name, ArrayRef<ImportedValue *> inputs) {
  auto reject = [&](const Twine &message) {
    return fail(ImportFailure::Rejected, "node \"" + name + "\" (" + call.op_type() + ") " + message);
  };
  if (scope.depth >= deepestCall)
    return reject("calls functions more than " + Twine(deepestCall) + " deep");
  if (inputs.size() > static_cast<size_t>(function.input_size()) || call.output_size() > function.output_size())
    return reject("expects at most " + Twine(function.input_size()) + " inputs and " + Twine(function.output_size()) +
                  " outputs, as its function has");
  Scope body;
  body.prefix = (name + "/").str();
  body.depth = scope.depth + 1;
  body.group = groupOf(scope, call, name);
  body.versions = scope.versions;
  for (const onnx::OperatorSetIdProto &set : function.opset_import())
    body.versions[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();

  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (const onnx::NodeProto &node : function.node()) {
    onnx::NodeProto copy = substituteAttributes(node, call, function);
    // An optional input that the call leaves out is absent in the body, too.
    for (std::string &input : *copy.mutable_input())
      for (int i = 0; i < function.input_size(); ++i)
        if (input == function.input(i) && (i >= static_cast<int>(inputs.size()) || !inputs[i]))
          input.clear();
    *nodes.Add() = std::move(copy);
  }
  countUses(body, nodes);
  for (const std::string &output : function.output())
    ++body.uses[output];
  for (auto [index, value] : llvm::enumerate(inputs))
    if (value && failed(define(body, function.input(index), value)))
      return failure();
  if (failed(importNodes(body, nodes)))
    return failure();
  for (int i = 0; i < call.output_size(); ++i) {
    if (call.output(i).empty())
      continue;
    ImportedValue *value = body.values.lookup(function.output(i));
    if (!value)
      return reject("has the output \"" + function.output(i) + "\", which its function does not compute");
    if (failed(define(scope, call.output(i), value)))
      return failure();
  }
  return success();
}

} // namespace cleave
