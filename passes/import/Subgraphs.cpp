// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Subgraphs of control flow nodes: a run of one is imported in place, in a scope that sees the values around it.

#include "passes/import/GraphImporter.h"
#include "passes/import/NodeImporter.h"

using namespace mlir;

namespace cleave {

static constexpr unsigned deepestSubgraph = 64;

FailureOr<Scope> GraphImporter::openSubgraph(const Scope &scope, NodeImporter &node, const onnx::GraphProto &subgraph) {
  if (scope.depth >= deepestSubgraph)
    return FailureOr<Scope>(node.error("holds subgraphs more than " + Twine(deepestSubgraph) + " deep"));
  Scope shared;
  shared.prefix = (node.getName() + "/").str();
  shared.versions = scope.versions;
  shared.depth = scope.depth + 1;
  shared.group = groupOf(scope, node.getProto(), node.getName());
  shared.outer = &scope;
  countUses(shared, subgraph.node());
  for (const onnx::ValueInfoProto &output : subgraph.output())
    ++shared.uses[output.name()];
  if (failed(importInitializers(shared, subgraph)))
    return failure();
  return shared;
}

FailureOr<SmallVector<ImportedValue *>> GraphImporter::importSubgraph(const Scope &shared, NodeImporter &node,
                                                                      const onnx::GraphProto &subgraph, StringRef name,
                                                                      ArrayRef<ImportedValue *> arguments) {
  using Outputs = FailureOr<SmallVector<ImportedValue *>>;
  if (static_cast<size_t>(subgraph.input_size()) != arguments.size())
    return Outputs(node.error("expects a subgraph of " + Twine(arguments.size()) + " inputs, got " +
                              Twine(subgraph.input_size())));
  Scope scope;
  scope.prefix = (name + "/").str();
  scope.versions = shared.versions;
  scope.depth = shared.depth;
  scope.group = shared.group;
  scope.outer = &shared;
  countUses(scope, subgraph.node());
  for (const onnx::ValueInfoProto &output : subgraph.output())
    ++scope.uses[output.name()];
  for (auto [index, argument] : llvm::enumerate(arguments))
    if (failed(define(scope, subgraph.input(index).name(), argument)))
      return failure();
  if (failed(importNodes(scope, subgraph.node())))
    return failure();
  SmallVector<ImportedValue *> outputs;
  for (const onnx::ValueInfoProto &output : subgraph.output()) {
    outputs.push_back(scope.find(output.name()));
    if (!outputs.back())
      return Outputs(node.error("has a subgraph that does not compute its output \"" + output.name() + "\""));
  }
  return outputs;
}

FailureOr<Scope> NodeImporter::open(const onnx::GraphProto &subgraph) {
  return graph.openSubgraph(scope, *this, subgraph);
}

FailureOr<SmallVector<ImportedValue *>> NodeImporter::run(const Scope &shared, const onnx::GraphProto &subgraph,
                                                          StringRef part, ArrayRef<ImportedValue *> arguments) {
  std::string below = part.empty() ? name : name + "/" + part.str();
  auto outputs = graph.importSubgraph(shared, *this, subgraph, below, arguments);
  hasError |= failed(outputs);
  return outputs;
}

ImportedValue *NodeImporter::argument(StringRef part, Value value) {
  if (!value)
    return nullptr;
  ImportedValue *result = graph.addValue(name + "/" + part.str(), typeOf(value));
  result->value = value;
  return result;
}

ImportedValue *NodeImporter::argument(StringRef part, HostTensor known) {
  ImportedValue *result = graph.addValue(name + "/" + part.str(), known.getType());
  result->known = std::move(known);
  return result;
}

} // namespace cleave
