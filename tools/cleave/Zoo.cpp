// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave zoo`: writes standard models as ONNX files.

#include "passes/zoo/Zoo.h"
#include "runtime/Printable.h"

#include "compiler/Figures.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/TextTable.h"

#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace cleave::tool {
namespace {

struct ZooCommandOptions {
  std::string name, output, json;
  ZooOptions model;
};

/// The message's bytes, in the same order for the same message.
std::string serialize(const onnx::ModelProto &model) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  model.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

void writeFile(JsonStream &json, const ZooCommandOptions &options, size_t bytes) {
  json.attribute("name", options.name);
  json.attribute("file", options.output);
  json.attribute("bytes", bytes);
  json.attribute("weights", options.model.weights);
}

Error writeModel(const ZooCommandOptions &options) {
  if (Error error = checkBinaryOutput("-o", options.output))
    return error;
  if (options.output == "-" && options.json == "-")
    return makeError(Status::Usage, "--json expects another file than the model, got \"-\"");
  auto model = buildZooModel(options.name, options.model);
  if (!model)
    return fromLlvm(Status::Usage, model.takeError());
  std::string bytes = serialize(*model);
  Error error = writeBinary(options.output, [&](llvm::raw_ostream &out) { out << bytes; });
  if (!error && options.output != "-" && options.json != "-")
    llvm::outs() << "wrote " << runtime::printable(options.output) << ": "
                 << bytesText(static_cast<double>(bytes.size())) << "\n";
  if (error || options.json.empty())
    return error;
  return writeJson(options.json, [&](JsonStream &json) { writeFile(json, options, bytes.size()); });
}

/// The models with their numbers and defaults, for the help text.
std::string listModels() {
  std::string text = "Models:\n";
  for (const ZooModel &model : getZooModels()) {
    text += "  " + model.name + ": " + model.summary + ";";
    for (const ZooNumber &number : model.numbers)
      text += " --" + number.name + "=" + std::to_string(number.value);
    text += "\n";
  }
  return text;
}

} // namespace

void addZooCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ZooCommandOptions>();
  CLI::App *command = app.add_subcommand("zoo", "Writes a standard model as an ONNX file.");
  command->add_option("NAME", options->name, "the model")->required();
  for (const ZooModel &model : getZooModels())
    for (const ZooNumber &number : model.numbers)
      if (!command->get_option_no_throw("--" + number.name))
        command
            ->add_option_function<int64_t>(
                "--" + number.name,
                [options, name = number.name](int64_t value) { options->model.numbers[name] = value; }, number.meaning)
            ->type_name("N");
  command
      ->add_option("--symbolic", options->model.symbolic,
                   "leave this number open, as a dimension of that name: lstm's sequence")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_flag("--weights", options->model.weights,
                    "write the weights into the file; without, they are drawn when the model is loaded");
  command->add_option("--seed", options->model.seed, "from which the weights follow")->capture_default_str();
  addOutputOption(*command, "-o,--output", options->output, "the model's file")->required();
  addOutputOption(*command, "--json", options->json, "what was written, as JSON");
  command->footer(listModels());
  command->callback([options, &chosen] { chosen = [options] { return report(writeModel(*options)); }; });
}

} // namespace cleave::tool
