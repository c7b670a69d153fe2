// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave train`: trains with a plan that was compiled for it.

#include "tools/cleave-run/TrainArguments.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/ModelExport.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {

void addTrainCommand(CLI::App &app, Action &chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  auto model = std::make_shared<ExportToModel>();
  auto modelFile = std::make_shared<std::string>();
  arguments->options.modelExport = model.get();
  CLI::App *command =
      app.add_subcommand("train", "Trains a model: runs a plan that was compiled with --train on data.");
  addTrainArguments(*command, *arguments);
  command
      ->add_option("--model", *modelFile,
                   "the plan's model, for --export to .onnx, if it is no longer where the plan says")
      ->type_name("FILE");
  command->callback([arguments, model, modelFile, &chosen] {
    chosen = [arguments, model, modelFile] {
      auto plan = runtime::Plan::read(arguments->file);
      if (!plan)
        return report(plan.error());
      if (Error error = arguments->trust.check(*plan, arguments->file))
        return report(error);
      model->setModel(!modelFile->empty() ? *modelFile : (plan->folder() / (*plan)->model).string());
      runtime::FolderSource parameters(plan->folder());
      return trainPlan(*plan, parameters, arguments->options);
    };
  });
}

} // namespace cleave::tool
