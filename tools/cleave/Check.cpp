// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave check`: is a model valid, safe and supported, and what is in it?

#include "compiler/Figures.h"
#include "compiler/ModelReader.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/ModelArguments.h"
#include "tools/cleave/ModelExport.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/TextTable.h"

#include "dialects/dfg/Dfg.h"

#include <CLI/CLI.hpp>

using namespace mlir;

namespace cleave::tool {
namespace {

struct CheckOptions {
  ModelOptions model;
  std::string json;
};

struct Port {
  std::string name;
  RankedTensorType type;
};

/// What a model holds, for both forms of the report.
struct ModelFacts {
  const ImportReport &import;
  std::vector<Port> inputs, outputs;
  std::vector<std::string> openDims; ///< symbolic dimensions without a size, which are 1 in what is shown
  std::map<std::string, int64_t> operators;
  int64_t numOperators = 0, numParameters = 0, parameterElements = 0, parameterBytes = 0;

  ModelFacts(LoadedModel &model, const ImportReport &import) : import(import), operators(import.operators) {
    auto graph = cast<dfg::GraphOp>(findGraph(*model.module));
    for (auto [i, type] : llvm::enumerate(graph.getArgumentTypes()))
      inputs.push_back({graph.getInputName(i).str(), cast<RankedTensorType>(type)});
    for (auto [i, type] : llvm::enumerate(graph.getResultTypes()))
      outputs.push_back({graph.getOutputName(i).str(), cast<RankedTensorType>(type)});
    for (auto parameter : model.module->getOps<dfg::ParameterOp>()) {
      HostTensor tensor(parameter.getTensorType(), nullptr, nullptr);
      ++numParameters;
      parameterElements += tensor.getNumElements();
      parameterBytes += tensor.getNumBytes();
    }
    if (model.isText)
      for (Operation &op : graph.getBody().front().without_terminator())
        if (!isa<dfg::ReadOp, dfg::ConstantOp>(op))
          ++operators[op.getName().getStringRef().str()];
    for (const auto &[kind, count] : operators)
      numOperators += count;
  }
};

std::string typeText(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream(text) << type.getElementType();
  text += "[";
  for (auto [i, size] : llvm::enumerate(type.getShape()))
    text += (i ? "," : "") + std::to_string(size);
  return text + "]";
}

void printFacts(llvm::raw_ostream &out, const CheckOptions &options, const ModelFacts &facts) {
  out << options.model.model << "\n";
  if (facts.import.opset)
    out << "ONNX IR version " << facts.import.irVersion << ", operator set " << facts.import.opset << "\n";
  for (const Port &port : facts.inputs)
    out << "input " << port.name << " " << typeText(port.type) << "\n";
  for (const Port &port : facts.outputs)
    out << "output " << port.name << " " << typeText(port.type) << "\n";
  for (const std::string &dim : facts.openDims)
    out << "dimension " << dim << " is symbolic, and 1 here: give it a size with --dim " << dim << "=N\n";
  for (const std::string &input : facts.import.inputsToBind)
    out << "input " << input << " fixes a shape: bind it with --bind " << input << "=FILE\n";
  out << countText(facts.numParameters, "parameter") << ", " << countText(facts.parameterElements, "element") << ", "
      << bytesText(static_cast<double>(facts.parameterBytes)) << "\n"
      << countText(facts.numOperators, "operator") << "\n";
  TextTable table({{"operator", TextTable::Align::Left, 20}, {"count", TextTable::Align::Right}});
  for (const auto &[kind, count] : facts.operators)
    table.addRow({kind, std::to_string(count)});
  table.print(out);
  if (facts.import.unsupported.empty()) {
    out << "supported: every operator can run\n";
    return;
  }
  out << "unsupported: " << countText(facts.import.unsupported.size(), "operator") << " cannot run\n";
  TextTable unsupported({{"node", TextTable::Align::Left, 20},
                         {"operator", TextTable::Align::Left, 12},
                         {"reason", TextTable::Align::Left, 20}});
  for (const UnsupportedNode &node : facts.import.unsupported)
    unsupported.addRow({node.name, node.kind, node.reason});
  unsupported.print(out);
}

void writePorts(JsonStream &json, const std::vector<Port> &ports) {
  for (const Port &port : ports)
    json.object([&] {
      json.attribute("name", port.name);
      json.attribute("type", typeText(port.type));
    });
}

void writeFacts(JsonStream &json, const CheckOptions &options, const ModelFacts &facts) {
  json.attribute("model", options.model.model);
  json.attribute("supported", facts.import.unsupported.empty());
  json.attribute("ir_version", facts.import.irVersion);
  json.attribute("opset", facts.import.opset);
  json.attributeArray("symbolic_dims", [&] {
    for (const std::string &dim : facts.openDims)
      json.value(dim);
  });
  json.attributeArray("inputs", [&] { writePorts(json, facts.inputs); });
  json.attributeArray("outputs", [&] { writePorts(json, facts.outputs); });
  json.attribute("parameters", facts.numParameters);
  json.attribute("parameter_bytes", facts.parameterBytes);
  json.attributeObject("operators", [&] {
    for (const auto &[kind, count] : facts.operators)
      json.attribute(kind, count);
  });
  json.attributeArray("unsupported", [&] {
    for (const UnsupportedNode &node : facts.import.unsupported)
      json.object([&] {
        json.attribute("name", node.name);
        json.attribute("kind", node.kind);
        json.attribute("reason", node.reason);
      });
  });
}

Error check(const CheckOptions &options) {
  auto context = createContext();
  DiagnosticPrinter printer(context.get());
  ImportReport import;
  ModelOptions sized = options.model;
  std::vector<std::string> open;
  for (const std::string &dim :
       StringRef(sized.model).ends_with(".mlir") ? std::vector<std::string>() : symbolicDims(sized.model))
    if (llvm::none_of(options.model.dims, [&](StringRef given) { return given.starts_with(dim + "="); })) {
      open.push_back(dim);
      sized.dims.push_back(dim + "=1");
    }
  auto model = readModel(*context, sized, nullptr, "model.weights", import);
  if (!model)
    return model.error();
  ModelFacts facts(*model, import);
  facts.openDims = std::move(open);
  if (Error error = writeText(options.json, [&](llvm::raw_ostream &out) { printFacts(out, options, facts); }))
    return error;
  if (!options.json.empty())
    if (Error error = writeJson(options.json, [&](JsonStream &json) { writeFacts(json, options, facts); }))
      return error;
  return checkSupported(*model->module, import);
}

} // namespace

void addCheckCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App *command =
      app.add_subcommand("check", "Says whether a model is valid, safe and supported, and what it holds.");
  addModelOptions(*command, options->model);
  addOutputOption(*command, "--json", options->json, "where the facts go as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(check(*options)); }; });
}

} // namespace cleave::tool
