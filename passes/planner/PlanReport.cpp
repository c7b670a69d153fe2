// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One list of fields for each struct of a report, which is both written and read by it.

#include "passes/planner/PlanReport.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave {
namespace {

template <typename Fields> void visit(Fields &fields, runtime::MemoryUse &memory) {
  fields("parameters", memory.parameters);
  fields("gradients", memory.gradients);
  fields("optimizer", memory.optimizer);
  fields("activations", memory.activations);
  fields("transient", memory.transient);
  fields("host", memory.host);
}

template <typename Fields> void visit(Fields &fields, runtime::PlanStage &stage) {
  fields("mesh", stage.mesh);
  fields("forward", stage.forward);
  fields("backward_input", stage.backwardInput);
  fields("backward_weight", stage.backwardWeight);
  fields("send", stage.send);
  fields("per_step", stage.perStep);
  fields("in_flight", stage.inFlight);
  fields("memory", stage.memory);
  fields("recompute", stage.recompute);
  fields("zero", stage.zero);
  fields("optimizer_in_host", stage.optimizerInHost);
}

template <typename Fields> void visit(Fields &fields, runtime::Alternative &other) {
  fields("name", other.name);
  fields("seconds", other.seconds);
  fields("peak_bytes", other.peakBytes);
  fields("why_not", other.whyNot);
}

template <typename Fields> void visit(Fields &fields, runtime::Degree &degree) {
  fields("name", degree.name);
  fields("ways", degree.ways);
}

template <typename Fields> void visit(Fields &fields, OperatorReport &op) {
  fields("seconds", op.seconds);
  fields("communication_seconds", op.communicationSeconds);
  fields("alternative", op.alternative);
  fields("alternative_seconds", op.alternativeSeconds);
  fields("stage", op.stage);
}

template <typename Fields> void visit(Fields &fields, PlanReport &report) {
  runtime::Prediction &prediction = report.prediction;
  fields("machine", prediction.machine);
  fields("training", prediction.training);
  fields("step_seconds", prediction.stepSeconds);
  fields("lower_bound_seconds", prediction.lowerBoundSeconds);
  fields("model_flops", prediction.modelFlops);
  fields("microbatches", prediction.microbatches);
  fields("schedule", prediction.schedule);
  fields("chunks", prediction.chunks);
  fields("degrees", prediction.degrees);
  fields("stages", prediction.stages);
  fields("alternatives", prediction.alternatives);
  fields("memory_limit", prediction.memoryLimit);
  fields("peak_bytes", prediction.peakBytes);
  fields("simulated_seconds", prediction.simulatedSeconds);
  fields("machine_file", prediction.machineFile);
  fields("stage_meshes", report.stageMeshes);
  fields("operators", report.operators);
}

/// Makes attributes of fields.
class Writer {
public:
  explicit Writer(MLIRContext *context) : builder(context) {}

  template <typename Field> void operator()(StringRef name, Field &field) {
    if (Attribute value = write(field))
      entries.push_back(builder.getNamedAttr(name, value));
  }

  /// Null for a struct whose fields are all as by default.
  template <typename Struct> DictionaryAttr dictionary(Struct &fields) {
    Writer inner(builder.getContext());
    Struct initial;
    Writer before(builder.getContext());
    visit(before, initial);
    visit(inner, fields);
    llvm::erase_if(inner.entries, [&](NamedAttribute entry) { return llvm::is_contained(before.entries, entry); });
    return builder.getDictionaryAttr(inner.entries);
  }

private:
  Attribute write(double value) { return builder.getF64FloatAttr(value); }
  Attribute write(bool value) { return builder.getBoolAttr(value); }
  Attribute write(uint32_t value) { return builder.getI64IntegerAttr(value); }
  Attribute write(std::string &value) { return builder.getStringAttr(value); }
  template <typename Element> Attribute write(std::vector<Element> &values) {
    SmallVector<Attribute> list;
    for (Element &value : values)
      list.push_back(write(value));
    return builder.getArrayAttr(list);
  }
  Attribute write(llvm::StringMap<OperatorReport> &operators) {
    SmallVector<NamedAttribute> list;
    for (auto &[name, op] : operators)
      list.push_back(builder.getNamedAttr(name, dictionary(op)));
    return builder.getDictionaryAttr(list);
  }
  template <typename Struct> Attribute write(Struct &fields) { return dictionary(fields); }

  Builder builder;
  SmallVector<NamedAttribute> entries;
};

/// Fills fields from attributes. Where one is of another kind than its field, or of no field, it remembers its name.
class Reader {
public:
  explicit Reader(DictionaryAttr dictionary) : dictionary(dictionary) {}

  template <typename Field> void operator()(StringRef name, Field &field) {
    Attribute value = dictionary.get(name);
    if (!value)
      return;
    ++known;
    if (!read(value, field))
      wrong = name.str();
  }

  /// The name of an attribute that is wrong; empty where none is.
  template <typename Struct> std::string fill(Struct &fields) {
    visit(*this, fields);
    if (wrong.empty() && known != dictionary.size())
      return "another field";
    return wrong;
  }

private:
  static bool read(Attribute value, double &field) {
    auto number = dyn_cast<FloatAttr>(value);
    if (number)
      field = number.getValueAsDouble();
    return number != nullptr;
  }
  static bool read(Attribute value, bool &field) {
    auto flag = dyn_cast<BoolAttr>(value);
    if (flag)
      field = flag.getValue();
    return flag != nullptr;
  }
  static bool read(Attribute value, uint32_t &field) {
    auto number = dyn_cast<IntegerAttr>(value);
    if (!number || !number.getType().isInteger(64) || !llvm::isUInt<32>(number.getInt()))
      return false;
    field = static_cast<uint32_t>(number.getInt());
    return true;
  }
  static bool read(Attribute value, std::string &field) {
    auto text = dyn_cast<StringAttr>(value);
    if (text)
      field = text.getValue().str();
    return text != nullptr;
  }
  template <typename Element> static bool read(Attribute value, std::vector<Element> &field) {
    auto list = dyn_cast<ArrayAttr>(value);
    return list && llvm::all_of(list, [&](Attribute element) { return read(element, field.emplace_back()); });
  }
  static bool read(Attribute value, llvm::StringMap<OperatorReport> &field) {
    auto list = dyn_cast<DictionaryAttr>(value);
    return list && llvm::all_of(list, [&](NamedAttribute op) { return read(op.getValue(), field[op.getName()]); });
  }
  template <typename Struct> static bool read(Attribute value, Struct &field) {
    auto inner = dyn_cast<DictionaryAttr>(value);
    return inner && Reader(inner).fill(field).empty();
  }

  DictionaryAttr dictionary;
  size_t known = 0;
  std::string wrong;
};

} // namespace

void setReport(ModuleOp module, const PlanReport &report) {
  PlanReport copy = report;
  module->setAttr(reportAttrName, Writer(module.getContext()).dictionary(copy));
}

FailureOr<std::optional<PlanReport>> getReport(ModuleOp module) {
  Attribute attribute = module->getAttr(reportAttrName);
  if (!attribute)
    return std::optional<PlanReport>();
  PlanReport report;
  auto dictionary = dyn_cast<DictionaryAttr>(attribute);
  std::string wrong = dictionary ? Reader(dictionary).fill(report) : "no dictionary";
  if (!wrong.empty() || report.stageMeshes.size() != report.prediction.stages.size())
    return module.emitOpError("expects '") << reportAttrName << "' to be what the place stage writes, got "
                                           << (wrong.empty() ? "other meshes than stages" : wrong);
  return std::optional(std::move(report));
}

} // namespace cleave
