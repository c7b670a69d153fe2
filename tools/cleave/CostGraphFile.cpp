// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads cost graphs.

#include "tools/cleave/CostGraphFile.h"

#include "tools/cleave/CostFields.h"

#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace cleave::tool {

using stages::CostGraph;
using stages::CostOp;

static constexpr size_t mostOps = 16384;

static llvm::Expected<std::string> textOf(const YamlValue &op, StringRef key) {
  auto value = requireKey(op, key, "an operator");
  if (!value)
    return value.takeError();
  if (llvm::Error failure = (*value)->expect(YamlValue::Kind::Text, ("an operator's " + key).str()))
    return failure;
  return (*value)->text;
}

static llvm::Expected<CostOp> readOp(const YamlValue &value) {
  if (llvm::Error failure = value.expect(YamlValue::Kind::Map, "an operator"))
    return failure;
  if (llvm::Error failure = value.expectKeys(
          {"name", "kind", "inputs", "forward", "backward", "activation", "parameters"}, "an operator"))
    return failure;
  CostOp op;
  auto name = textOf(value, "name");
  if (!name)
    return name.takeError();
  op.name = *name;
  if (value.find("kind")) {
    auto kind = textOf(value, "kind");
    if (!kind)
      return kind.takeError();
    op.kind = *kind;
  }
  std::string subject = "operator \"" + op.name + "\"";
  auto forward = quantityOf(value, "forward", timeUnits, subject);
  if (!forward)
    return forward.takeError();
  op.forward = op.kind == "Input" ? 0 : *forward;
  struct Optional {
    StringRef key;
    ArrayRef<Unit> units;
    double *target;
  };
  for (auto [key, units, target] :
       {Optional{"backward", timeUnits, &op.backward}, Optional{"activation", sizeUnits, &op.activation},
        Optional{"parameters", sizeUnits, &op.parameters}}) {
    auto quantity = quantityOf(value, key, units, subject, 0);
    if (!quantity)
      return quantity.takeError();
    *target = *quantity;
  }
  return op;
}

static llvm::Error readInputs(const YamlValue &value, const StringMap<unsigned> &indices, CostOp &op) {
  const YamlValue *inputs = value.find("inputs");
  if (!inputs)
    return llvm::Error::success();
  std::string subject = "operator \"" + op.name + "\" inputs";
  if (llvm::Error failure = inputs->expect(YamlValue::Kind::List, subject))
    return failure;
  for (const YamlValue &input : inputs->items) {
    auto found = indices.find(input.text);
    if (input.kind != YamlValue::Kind::Text || found == indices.end())
      return input.error(subject + " expect names of operators, got \"" + input.text + "\"");
    op.inputs.push_back(found->second);
  }
  return llvm::Error::success();
}

llvm::Expected<CostGraph> readCostGraph(StringRef path) {
  llvm::Expected<YamlValue> list = readListFile(path, "ops", "a cost graph");
  if (!list)
    return list.takeError();
  const std::vector<YamlValue> &items = list->items;
  if (items.empty() || items.size() > mostOps)
    return list->error("\"ops\" expects from 1 to " + Twine(mostOps) + " operators, got " + Twine(items.size()));
  CostGraph graph;
  StringMap<unsigned> indices;
  for (const YamlValue &item : items) {
    auto op = readOp(item);
    if (!op)
      return op.takeError();
    if (!indices.try_emplace(op->name, graph.ops.size()).second)
      return item.error("\"ops\" expects each name once, got \"" + op->name + "\" again");
    graph.ops.push_back(std::move(*op));
  }
  for (size_t i = 0; i < items.size(); ++i)
    if (llvm::Error failure = readInputs(items[i], indices, graph.ops[i]))
      return failure;
  if (!sortTopologically(graph))
    return list->error("\"ops\" expects no operator to depend on itself, got a circle");
  return graph;
}

} // namespace cleave::tool
