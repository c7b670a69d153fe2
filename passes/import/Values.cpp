// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of the model: evaluating what is known, and turning what is used at run time into parameters and constants.

#include "dialects/interfaces/SplitRule.h"
#include "passes/import/GraphImporter.h"
#include "passes/import/NodeImporter.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace cleave {

/// Known tensors up to this size become constants in the IR unless they are weights; larger ones are parameters.
static constexpr int64_t largestConstantBytes = 64 << 10;
/// What folding may make at most: one result, and all of a model together. A file of a few bytes can ask for any size.
static constexpr int64_t largestFoldedBytes = int64_t(2) << 30;
static constexpr uint64_t mostFoldedBytes = uint64_t(16) << 30;
/// How far back the search for graph inputs that fix a shape goes.
static constexpr unsigned deepestBinding = 1000;

bool ImportedValue::isKnown() const {
  return known || (isa_and_nonnull<dfg::FillAttr>(init) && tensorBytes(type) <= largestFoldedBytes);
}

HostTensor ImportedValue::getKnown() const {
  if (known || !isKnown())
    return known;
  Attribute number = FloatAttr::get(type.getElementType(), cast<dfg::FillAttr>(init).getValue().getValueAsDouble());
  HostTensor one =
      HostTensor::fromAttribute(DenseElementsAttr::get(RankedTensorType::get({1}, type.getElementType()), number));
  char *writable = nullptr;
  HostTensor tensor = HostTensor::allocate(type, writable);
  int64_t width = one.getNumBytes();
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i)
    std::memcpy(writable + i * width, one.data(), width);
  return tensor;
}

ImportedValue *GraphImporter::addValue(std::string name, RankedTensorType type) {
  ImportedValue &value = values.emplace_back();
  value.name = std::move(name);
  value.type = type;
  return &value;
}

LogicalResult GraphImporter::define(Scope &scope, StringRef name, ImportedValue *value) {
  if (!scope.values.try_emplace(name, value).second)
    return fail(ImportFailure::Rejected, "the name \"" + scope.prefix + name + "\" is defined twice");
  value->usesLeft += scope.uses.lookup(name);
  if (value->usesLeft == 0 && !value->value)
    value->known = HostTensor();
  return success();
}

/// Calls `visit` with every name that the node reads, also inside its subgraphs and as their outputs.
static void forEachRead(const onnx::NodeProto &node, llvm::function_ref<void(const std::string &)> visit) {
  for (const std::string &input : node.input())
    visit(input);
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    for (const onnx::NodeProto &inner : attribute.g().node())
      forEachRead(inner, visit);
    for (const onnx::ValueInfoProto &output : attribute.g().output())
      visit(output.name());
  }
}

void GraphImporter::countUses(Scope &scope, const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes) {
  for (const onnx::NodeProto &node : nodes)
    forEachRead(node, [&](const std::string &name) { ++scope.uses[name]; });
}

void GraphImporter::releaseUses(Scope &scope, const onnx::NodeProto &node) {
  forEachRead(node, [&](const std::string &name) {
    ImportedValue *value = scope.values.lookup(name);
    if (value && --value->usesLeft == 0 && !value->value)
      value->known = HostTensor();
  });
}

//===-- evaluation --------------------------------------------------------------------------------------------===//

bool GraphImporter::takeFoldedBytes(uint64_t bytes) {
  if (bytes > mostFoldedBytes - foldedBytes)
    return false;
  foldedBytes += bytes;
  return true;
}

/// Whether the node's operators read only what is known and each other, and only they read what they compute.
static bool dependsOnKnown(NodeImporter &node) {
  llvm::SmallPtrSet<Operation *, 16> own(node.getOperations().begin(), node.getOperations().end());
  return llvm::all_of(node.getOperations(), [&](Operation *op) {
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) {
                          return node.getPlaceholders().count(operand) || own.contains(operand.getDefiningOp());
                        }) &&
           llvm::all_of(op->getUsers(), [&](Operation *user) { return own.contains(user); });
  });
}

std::optional<SmallVector<HostTensor>> GraphImporter::evaluate(NodeImporter &node, ArrayRef<NodeResult> results) {
  if (node.getOperations().empty() || node.getPlaceholders().empty() || node.isLeftToRunTime())
    return std::nullopt;
  if (!dependsOnKnown(node))
    return std::nullopt;
  // Steps write weights, and what is computed of one follows it: a head that is the transposed embedding stays tied.
  if (isTraining() && llvm::any_of(node.getPlaceholders(), [](auto entry) { return entry.second->isWeight; }))
    return std::nullopt;
  uint64_t bytes = 0;
  for (auto [placeholder, value] : node.getPlaceholders())
    if (!value->known)
      bytes += static_cast<uint64_t>(tensorBytes(value->type));
  for (Operation *op : node.getOperations()) {
    if (!isa<EvaluateInterface, dfg::ConstantOp>(op))
      return std::nullopt;
    int64_t size = tensorBytes(op->getResult(0).getType());
    if (size > largestFoldedBytes)
      return std::nullopt;
    bytes += static_cast<uint64_t>(size);
  }
  if (!takeFoldedBytes(bytes))
    return std::nullopt;

  llvm::DenseMap<Value, HostTensor> known;
  for (auto [placeholder, value] : node.getPlaceholders())
    known[placeholder] = value->getKnown();
  for (Operation *op : node.getOperations()) {
    if (auto constant = dyn_cast<dfg::ConstantOp>(op)) {
      known[constant.getResult()] = HostTensor::fromAttribute(cast<DenseElementsAttr>(constant.getValue()));
      continue;
    }
    SmallVector<HostTensor> operands;
    for (Value operand : op->getOperands())
      operands.push_back(known.lookup(operand));
    auto computed = cast<EvaluateInterface>(op).evaluate(operands);
    if (failed(computed))
      return std::nullopt;
    known[op->getResult(0)] = computed->front();
  }
  SmallVector<HostTensor> tensors;
  for (const NodeResult &result : results)
    tensors.push_back(result.value ? known.lookup(result.value) : result.known);
  return tensors;
}

namespace {
/// Computes a value from graph inputs, walking back through operators that can be evaluated.
class Binding {
public:
  Binding(llvm::function_ref<std::optional<HostTensor>(Value)> leaf) : leaf(leaf) {}

  FailureOr<HostTensor> compute(Value value, unsigned depth = 0) {
    if (std::optional<HostTensor> tensor = leaf(value))
      return *tensor ? FailureOr<HostTensor>(*tensor) : FailureOr<HostTensor>(failure());
    if (auto found = computed.find(value); found != computed.end())
      return found->second;
    Operation *op = value.getDefiningOp();
    auto evaluate = dyn_cast_or_null<EvaluateInterface>(op);
    if (auto constant = dyn_cast_or_null<dfg::ConstantOp>(op))
      return computed[value] = HostTensor::fromAttribute(cast<DenseElementsAttr>(constant.getValue()));
    if (!evaluate || depth > deepestBinding || tensorBytes(value.getType()) > largestConstantBytes) {
      hindered = true;
      return failure();
    }
    SmallVector<HostTensor> operands;
    bool complete = true;
    for (Value operand : op->getOperands()) {
      FailureOr<HostTensor> tensor = compute(operand, depth + 1);
      complete &= succeeded(tensor);
      operands.push_back(succeeded(tensor) ? *tensor : HostTensor());
    }
    if (!complete)
      return failure();
    auto results = evaluate.evaluate(operands);
    hindered |= failed(results);
    if (failed(results))
      return failure();
    return computed[value] = results->front();
  }

  bool isHindered() const { return hindered; }

private:
  llvm::function_ref<std::optional<HostTensor>(Value)> leaf;
  llvm::DenseMap<Value, HostTensor> computed;
  bool hindered = false;
};
} // namespace

FailureOr<HostTensor> GraphImporter::bindValue(Value value, SmallVectorImpl<std::string> &inputs) {
  // Known leaves give their elements, inputs that are not bound an empty tensor, all else nothing.
  auto leaf = [&](Value leafValue) -> std::optional<HostTensor> {
    if (ImportedValue *read = reads.lookup(leafValue))
      return read->getKnown();
    ImportedValue *input = graphInputs.lookup(leafValue);
    if (!input)
      return std::nullopt;
    if (!input->known && options.bindInput)
      if (std::optional<HostTensor> bound = options.bindInput(input->name, input->type))
        if (failed(bindInput(*input, *bound)))
          return HostTensor();
    if (!input->known && !llvm::is_contained(inputs, input->name))
      inputs.push_back(input->name);
    return input->known;
  };
  Binding binding(leaf);
  FailureOr<HostTensor> result = binding.compute(value);
  if (binding.isHindered())
    inputs.clear();
  for (const std::string &input : inputs)
    if (!llvm::is_contained(report.inputsToBind, input))
      report.inputsToBind.push_back(input);
  return result;
}

//===-- parameters and constants ------------------------------------------------------------------------------===//

void GraphImporter::useAtRunTime(NodeImporter &node) {
  // Only where there is one: to compare places, a block that has changed is numbered anew.
  bool hasSubgraph = llvm::any_of(node.getProto().attribute(), [](const onnx::AttributeProto &attribute) {
    return attribute.has_g() || attribute.graphs_size() != 0;
  });
  for (auto [placeholder, value] : node.getPlaceholders()) {
    if (placeholder.use_empty())
      continue;
    OpBuilder builder(placeholder.getDefiningOp());
    Value placed = materialize(*value, builder);
    // A subgraph of the node may have placed it further down.
    if (Operation *op = placed.getDefiningOp(); hasSubgraph && op && placeholder.getDefiningOp()->isBeforeInBlock(op))
      op->moveBefore(placeholder.getDefiningOp());
    Value(placeholder).replaceAllUsesWith(placed);
  }
}

Value GraphImporter::materialize(ImportedValue &value, OpBuilder &builder) {
  if (value.value)
    return value.value;
  bool isParameter = value.init || value.isWeight || value.known.getNumBytes() > largestConstantBytes;
  if (!isParameter) {
    Location location = dfg::getNodeLocation(context, value.name, "Constant");
    return value.value = dfg::ConstantOp::create(builder, location, value.type, value.known.toAttribute());
  }
  std::string symbol = value.name;
  for (unsigned i = 1; !symbols.insert(symbol).second; ++i)
    symbol = value.name + "_" + std::to_string(i);
  Location location = dfg::getNodeLocation(context, value.name, "Parameter");
  OpBuilder outside(graph);
  // Where the bytes lie is decided at the end, when it is clear which parameters are used.
  Attribute init = value.init ? value.init : dfg::FileAttr::get(context, "", 0);
  auto parameter = dfg::ParameterOp::create(outside, location, symbol, value.type, init, value.isFilling);
  parameters[parameter] = &value;
  value.value = dfg::ReadOp::create(builder, location, value.type, symbol);
  reads[value.value] = &value;
  return value.value;
}

void GraphImporter::removeUnused() {
  Block::OpListType &operations = graph.getBody().front().getOperations();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(operations)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void GraphImporter::placeParameters() {
  llvm::StringSet<> used;
  for (auto read : graph.getOps<dfg::ReadOp>())
    used.insert(read.getParameter());
  for (auto [op, value] : parameters) {
    auto parameter = cast<dfg::ParameterOp>(op);
    if (!used.contains(parameter.getSymName())) {
      parameter.erase();
      continue;
    }
    bool isConstant = isTraining() && !value->isTrained() && isa<FloatType>(value->type.getElementType());
    parameter.setState(value->isState || value->isFilling || isConstant);
    if (value->init)
      continue;
    WeightsStore::Place place = {value->file, value->offset};
    if (value->file.empty())
      place = weights.add(value->known);
    else
      weights.addFile(value->file, reader.getFile(value->file));
    parameter.setInitAttr(dfg::FileAttr::get(context, place.path, place.offset));
  }
}

LogicalResult GraphImporter::finish(Scope &scope) {
  if (failed(checkDeclaredTypes(scope)))
    return failure();
  OpBuilder builder = builderAtEnd();
  SmallVector<Value> outputs;
  SmallVector<Type> types;
  llvm::StringSet<> names;
  for (const onnx::ValueInfoProto &output : model->graph().output()) {
    if (!names.insert(output.name()).second)
      return fail(ImportFailure::Rejected,
                  "the output \"" + output.name() + "\" is listed twice; give each output of the model once");
    ImportedValue *value = scope.values.lookup(output.name());
    if (!value)
      return fail(ImportFailure::Rejected, "the output \"" + output.name() + "\" is not computed by any node");
    outputs.push_back(materialize(*value, builder));
    types.push_back(value->type);
  }
  dfg::ReturnOp::create(builder, graph.getLoc(), outputs);
  graph.setFunctionType(builder.getFunctionType(graph.getBody().getArgumentTypes(), types));
  // All at once: one by one, each would copy those of all others.
  auto named = [&](DictionaryAttr known, const std::string &name) {
    NamedAttrList list(known);
    list.set("dfg.name", builder.getStringAttr(name));
    return list.getDictionary(context);
  };
  SmallVector<DictionaryAttr> ofArguments, ofResults;
  for (auto [index, argument] : llvm::enumerate(graph.getBody().getArguments()))
    ofArguments.push_back(named(graph.getArgAttrDict(index), graphInputs.lookup(argument)->name));
  for (auto [index, output] : llvm::enumerate(model->graph().output()))
    ofResults.push_back(named(graph.getResultAttrDict(index), output.name()));
  graph.setAllArgAttrs(ofArguments);
  graph.setAllResultAttrs(ofResults);
  removeUnused();
  placeParameters();
  if (failed(verify(*module))) {
    noteFailure(ImportFailure::Rejected);
    return failure();
  }
  return success();
}

} // namespace cleave
