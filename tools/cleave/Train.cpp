// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave train`: trains with a plan that was compiled for it.

#include "tools/cleave-run/TrainArguments.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {

void addTrainCommand(CLI::App &app, Action &chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App *command =
      app.add_subcommand("train", "Trains a model: runs a plan that was compiled with --train on data.");
  addTrainArguments(*command, *arguments);
  command->callback([arguments, &chosen] {
    chosen = [arguments] {
      auto plan = runtime::Plan::read(arguments->file);
      if (!plan)
        return report(plan.error());
      if (Error error = arguments->trust.check(*plan, arguments->file))
        return report(error);
      runtime::FolderSource parameters(plan->folder());
      return trainPlan(*plan, parameters, arguments->options);
    };
  });
}

} // namespace cleave::tool
