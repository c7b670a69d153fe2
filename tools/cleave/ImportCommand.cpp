// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave import`: a model as a dfg module.

#include "compiler/ModelReader.h"
#include "compiler/PlanWeights.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/ModelArguments.h"
#include "tools/cleave/OutputFile.h"

#include <CLI/CLI.hpp>
#include <filesystem>

using namespace mlir;

namespace cleave::tool {
namespace {

struct ImportCommandOptions {
  ModelOptions model;
  std::string output = "-", json;
};

void writeImport(JsonStream &json, const ImportCommandOptions &options, const std::string &weights,
                 const ImportReport &import) {
  json.attribute("model", options.model.model);
  if (options.output != "-")
    json.attribute("module", options.output);
  if (!weights.empty())
    json.attribute("weights", weights);
  json.attributeArray("unsupported", [&] {
    for (const UnsupportedNode &node : import.unsupported)
      json.object([&] {
        json.attribute("name", node.name);
        json.attribute("kind", node.kind);
        json.attribute("reason", node.reason);
      });
  });
}

/// On standard output the module refers to weights that are not written: it is for reading.
Error importModel(const ImportCommandOptions &options) {
  auto context = createContext();
  DiagnosticPrinter printer(context.get());
  std::filesystem::path output = options.output, modelFile = options.model.model;
  bool toFile = options.output != "-";
  std::string weightsFile = toFile ? output.filename().string() + ".weights" : "model.weights";
  ImportReport import;
  auto model = readModel(*context, options.model, nullptr, weightsFile, import);
  if (!model)
    return model.error();
  std::string written; // where its weights went
  if (toFile) {
    WeightsStore weights = anchorParameters(*model->module, model->weights, modelFile.parent_path().string(),
                                            output.parent_path().string(), weightsFile);
    if (!weights.isEmpty()) {
      written = options.output + ".weights";
      if (llvm::Error error = weights.write(written))
        return fromLlvm(Status::Failure, std::move(error));
    }
  }
  for (const UnsupportedNode &node : import.unsupported)
    printWarning(node.kind + " at node \"" + node.name + "\" cannot run: " + node.reason);
  if (!options.json.empty()) {
    auto write = [&](JsonStream &json) { writeImport(json, options, written, import); };
    if (Error error = writeJson(options.json, write); error || (options.json == "-" && !toFile))
      return error;
  }
  return writeOutput(options.output, [&](llvm::raw_ostream &out) {
    model->module->print(out, OpPrintingFlags().enableDebugInfo());
    out << "\n";
  });
}

} // namespace

void addImportCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ImportCommandOptions>();
  CLI::App *command = app.add_subcommand("import", "Turns a model into a dfg module in text form.");
  addModelOptions(*command, options->model);
  addOutputOption(*command, "-o,--output", options->output, "the module; its weights go to FILE.weights beside it")
      ->capture_default_str();
  addOutputOption(*command, "--json", options->json, "where the facts go as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(importModel(*options)); }; });
}

} // namespace cleave::tool
