// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Imports a model node by node: known operators through the table, functions of the model by inlining them, all others
// as opaque operators.

#include "passes/import/GraphImporter.h"

#include "dialects/dist/Dist.h"
#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"

#include <fstream>
#include <unistd.h>

using namespace mlir;

namespace cleave {

GraphImporter::GraphImporter(MLIRContext *context, std::shared_ptr<onnx::ModelProto> model, std::string folder,
                             const ImportOptions &options, WeightsStore &weights, ImportReport &report)
    : context(context), model(model), folder(folder), options(options), weights(weights), report(report),
      reader(context, model, std::move(folder)) {}

OpBuilder GraphImporter::builderAtEnd() { return OpBuilder::atBlockEnd(&graph.getBody().front()); }

void GraphImporter::noteFailure(ImportFailure failure) {
  if (!failureNoted)
    report.failure = failure;
  failureNoted = true;
}

LogicalResult GraphImporter::fail(ImportFailure failure, const Twine &message) {
  noteFailure(failure);
  return emitError(UnknownLoc::get(context)) << message;
}

/// The version of the default operator set; an error where Cleave does not know it.
static FailureOr<int64_t> checkVersions(GraphImporter &importer, const onnx::ModelProto &model, Scope &scope) {
  for (const onnx::OperatorSetIdProto &set : model.opset_import())
    scope.versions[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  if (model.ir_version() > 13)
    return FailureOr<int64_t>(importer.fail(
        ImportFailure::Unsupported, "the model expects ONNX IR version 3 to 13, got " + Twine(model.ir_version())));
  if (model.ir_version() < 3)
    return FailureOr<int64_t>(importer.fail(ImportFailure::Rejected, "the model expects ONNX IR version 3 to 13, got " +
                                                                         Twine(model.ir_version())));
  auto found = scope.versions.find("");
  if (found == scope.versions.end())
    return int64_t(0);
  if (found->second < 1 || found->second > newestOperatorSet)
    return FailureOr<int64_t>(importer.fail(ImportFailure::Unsupported, "the model expects operator set 1 to " +
                                                                            Twine(newestOperatorSet) + ", got " +
                                                                            Twine(found->second)));
  return found->second;
}

FailureOr<OwningOpRef<ModuleOp>> GraphImporter::run() {
  Scope scope;
  report.irVersion = model->ir_version();
  FailureOr<int64_t> version = checkVersions(*this, *model, scope);
  if (failed(version))
    return failure();
  report.opset = *version;
  if (!model->has_graph())
    return FailureOr<OwningOpRef<ModuleOp>>(fail(ImportFailure::Rejected, "the model holds no graph"));

  Location location = NameLoc::get(StringAttr::get(context, model->graph().name()));
  module = ModuleOp::create(location);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  graph = dfg::GraphOp::create(builder, location, "main", builder.getFunctionType({}, {}));
  symbols.insert("main");
  for (const auto &infos : {&model->graph().value_info(), &model->graph().output()})
    for (const onnx::ValueInfoProto &info : *infos)
      declaredTypes[info.name()] = &info.type();
  for (const onnx::FunctionProto &function : model->functions())
    functions[function.domain() + ":" + function.name()] = &function;
  for (const onnx::StringStringEntryProto &entry : model->metadata_props())
    if (StringRef node = entry.key(); node.consume_front("ctx_group:"))
      groups[node] = entry.value();

  countUses(scope, model->graph().node());
  for (const onnx::ValueInfoProto &output : model->graph().output())
    ++scope.uses[output.name()];
  if (failed(importInitializers(scope, model->graph())) || failed(importInputs(scope)) ||
      failed(importNodes(scope, model->graph().node())) || failed(finish(scope)))
    return failure();
  return std::move(module);
}

/// Results of DequantizeLinear that a product has on its right, and another one on its left.
static void findQuantizedWeights(Scope &scope, const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes) {
  llvm::StringSet<> dequantized;
  for (const onnx::NodeProto &node : nodes)
    if (node.op_type() == "DequantizeLinear" && node.output_size() == 1)
      dequantized.insert(node.output(0));
  for (const onnx::NodeProto &node : nodes)
    if ((node.op_type() == "Conv" || node.op_type() == "MatMul" || node.op_type() == "Gemm") &&
        node.input_size() >= 2 && dequantized.contains(node.input(0)) && dequantized.contains(node.input(1)))
      scope.quantizedWeights.insert(node.input(1));
}

LogicalResult GraphImporter::importNodes(Scope &scope,
                                         const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes) {
  findQuantizedWeights(scope, nodes);
  // Names that are defined further down tell a wrong order (or a cycle) from a missing value.
  llvm::StringMap<const onnx::NodeProto *> definedBelow;
  for (const onnx::NodeProto &node : nodes)
    for (const std::string &output : node.output())
      definedBelow.try_emplace(output, &node);
  for (const onnx::NodeProto &node : nodes) {
    for (const std::string &input : node.input())
      if (!input.empty() && !scope.find(input)) {
        std::string name = node.name().empty() && node.output_size() ? node.output(0) : node.name();
        std::string where = definedBelow.count(input)
                                ? "which is computed only later: the graph has a cycle, or its nodes are out of order"
                                : "which nothing defines";
        return fail(ImportFailure::Rejected,
                    "node \"" + scope.prefix + name + "\" (" + node.op_type() + ") reads \"" + input + "\", " + where);
      }
    if (failed(importNode(scope, node)))
      return failure();
    releaseUses(scope, node);
  }
  return success();
}

std::string GraphImporter::groupOf(const Scope &scope, const onnx::NodeProto &proto, StringRef name) const {
  for (const onnx::AttributeProto &attribute : proto.attribute())
    if (attribute.name() == "ctx_group" && attribute.type() == onnx::AttributeProto::STRING)
      return attribute.s();
  // Files of IR version 10 and later have metadata on nodes (field 9 of NodeProto), which older schemas keep as an
  // unknown field.
  const google::protobuf::UnknownFieldSet &unknown = proto.unknown_fields();
  for (int i = 0; i < unknown.field_count(); ++i) {
    const google::protobuf::UnknownField &field = unknown.field(i);
    onnx::StringStringEntryProto entry;
    if (field.number() == 9 && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParseFromString(field.length_delimited()) && entry.key() == "ctx_group")
      return entry.value();
  }
  auto found = groups.find(name);
  return found == groups.end() ? scope.group : found->second;
}

/// What the process holds in memory now; 0 where the system does not say.
static uint64_t residentBytes() {
  uint64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

LogicalResult GraphImporter::countNode(const std::string &name) {
  const ImportLimits &limits = options.limits;
  auto exceeded = [&](const Twine &what, const char *flag) {
    return fail(ImportFailure::Rejected, "node \"" + name + "\": " + what + "; " + flag + " allows more");
  };
  if (++numNodes > limits.nodes)
    return exceeded("the model holds more than " + Twine(limits.nodes) +
                        " nodes once its functions are inlined and its loops unrolled",
                    "--max-nodes");
  if (limits.seconds > 0) {
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (taken.count() > limits.seconds)
      return exceeded("the import takes more than " + llvm::formatv("{0}", limits.seconds).str() + " s",
                      "--max-seconds");
  }
  if (limits.bytes != 0 && residentBytes() > limits.bytes)
    return exceeded("the import takes more than " + Twine(limits.bytes) + " bytes of memory", "--max-memory");
  return success();
}

LogicalResult GraphImporter::importNode(Scope &scope, const onnx::NodeProto &proto) {
  std::string name = proto.name();
  for (int i = 0; name.empty() && i < proto.output_size(); ++i)
    name = proto.output(i);
  name = scope.prefix + (name.empty() ? proto.op_type() : name);
  if (failed(countNode(name)))
    return failure();
  auto operands = static_cast<uint64_t>(proto.input_size()) + static_cast<uint64_t>(proto.output_size());
  if (operands > options.limits.operands)
    return fail(ImportFailure::Rejected, "node \"" + name + "\": " + Twine(operands) +
                                             " operands and results, expected at most " +
                                             Twine(options.limits.operands) + "; --max-operands allows more");
  SmallVector<ImportedValue *> inputs;
  for (const std::string &input : proto.input())
    inputs.push_back(input.empty() ? nullptr : scope.find(input));

  if (const onnx::FunctionProto *function = findFunction(proto))
    return importCall(scope, proto, *function, name, inputs);
  std::string domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  std::string kind = domain.empty() ? proto.op_type() : domain + "." + proto.op_type();
  ++report.operators[kind];
  auto version = scope.versions.find(domain);
  if (domain.empty() && version == scope.versions.end())
    return fail(ImportFailure::Rejected, "node \"" + name + "\" (" + proto.op_type() +
                                             ") is of the default operator set, which the model does not import");
  NodeImporter node(*this, scope, proto, name, version == scope.versions.end() ? 1 : version->second, inputs);
  LogicalResult result = domain.empty() || OperatorTable::get().hasKind(kind)
                             ? importKnownKind(scope, node, kind)
                             : importOpaque(scope, node, "the operator " + kind + " is not known");
  if (failed(result))
    return failure();
  if (std::string group = groupOf(scope, proto, name); !group.empty())
    for (Operation *op : node.getOperations())
      op->setAttr(dist::groupAttrName, StringAttr::get(context, group));
  return success();
}

static bool fits(Elements elements, Type type) {
  switch (elements) {
  case Elements::Any:
    return true;
  case Elements::Number:
    return !type.isInteger(1);
  case Elements::Integer:
    return isa<IntegerType>(type) && !type.isInteger(1);
  case Elements::Float:
    return isa<FloatType>(type);
  case Elements::Bool:
    return type.isInteger(1);
  }
  return false;
}

LogicalResult GraphImporter::importKnownKind(Scope &scope, NodeImporter &node, StringRef kind) {
  const OperatorRule *rule = OperatorTable::get().find(kind, node.getVersion());
  if (!rule)
    return importOpaque(scope, node, "the operator is not known in operator set " + std::to_string(node.getVersion()));
  if (node.getNumInputs() > rule->maxInputs)
    return node.error("expects at most " + Twine(rule->maxInputs) + " inputs, got " + Twine(node.getNumInputs()));
  for (unsigned i = 0; i < rule->minInputs; ++i)
    if (!node.hasInput(i))
      return node.error("expects input " + Twine(i));
  if (node.getNumInputs() > 0 && node.hasInput(0) && !fits(rule->elements, node.type(0).getElementType())) {
    std::string reason;
    llvm::raw_string_ostream(reason) << "it is not known for elements of " << node.type(0).getElementType();
    return importOpaque(scope, node, reason);
  }

  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (node.hasInput(i) && node.imported(i)->isPacked && !rule->takesPacked)
      return importOpaque(scope, node, "it is not known for elements of 4 bits");

  ImportResults results = rule->function(node);
  if (node.hasFailed())
    return failure();
  warnOfAttributes(node);
  if (!node.getUnsupportedReason().empty())
    return importOpaque(scope, node, node.getUnsupportedReason());
  if (failed(results) ||
      llvm::any_of(*results, [](const NodeResult &result) { return !result.value && !result.known && !result.init; }))
    return node.error("cannot be imported");

  std::optional<SmallVector<HostTensor>> folded = evaluate(node, *results);
  if (!folded)
    useAtRunTime(node);
  bool isWeight = llvm::any_of(node.getPlaceholders(), [](auto entry) { return entry.second->isWeight; });
  for (auto [index, result] : llvm::enumerate(*results)) {
    if (!node.hasOutput(index))
      continue;
    const std::string &output = node.getProto().output(index);
    // An output that is an input under another name needs no value of its own.
    if (auto alias = node.getPlaceholders().find(result.value); alias != node.getPlaceholders().end()) {
      ImportedValue *value = alias->second;
      // A folded value that nobody else uses takes the name under which it goes on.
      if (value->isFolded && !value->value && value->usesLeft == 1)
        value->name = scope.prefix + output;
      if (failed(define(scope, output, value)))
        return failure();
      continue;
    }
    RankedTensorType type = result.value   ? NodeImporter::typeOf(result.value)
                            : result.known ? result.known.getType()
                                           : result.type;
    ImportedValue *value = addValue(scope.prefix + output, type);
    value->init = result.init;
    value->isFilling = result.init && node.hasInput(0) && !node.imported(0)->isInitializer;
    value->known = result.known;
    if (result.known && !takeFoldedBytes(static_cast<uint64_t>(result.known.getNumBytes())))
      return node.error("makes the model's constants larger than memory should hold");
    // What a subgraph computes at run time is not among what was evaluated.
    if (HostTensor evaluated = folded ? (*folded)[index] : HostTensor(); evaluated && result.value) {
      value->known = evaluated;
      value->isFolded = true;
      value->isWeight = isWeight && isa<FloatType>(type.getElementType());
    } else {
      value->value = result.value;
    }
    if (failed(define(scope, output, value)))
      return failure();
  }
  for (int i = results->size(); i < node.getProto().output_size(); ++i)
    if (node.hasOutput(i))
      return node.error("has more outputs than its operator (" + Twine(results->size()) + ")");
  if (folded)
    for (Operation *op : llvm::reverse(node.getOperations()))
      op->erase();
  for (auto [placeholder, value] : node.getPlaceholders())
    if (placeholder.use_empty())
      placeholder.getDefiningOp()->erase();
  return success();
}

} // namespace cleave
