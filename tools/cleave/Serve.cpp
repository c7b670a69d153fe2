// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave serve`: serves plans over HTTP and gRPC, or compiles a model in memory for several batches and serves that.

#include "compiler/CompileModel.h"
#include "compiler/PlanWeights.h"
#include "tools/cleave-run/ServeArguments.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/ModelArguments.h"
#include "tools/cleave/PlanRunner.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

namespace cleave::tool {
namespace {

struct ServeModelOptions {
  ModelOptions model;
  TargetOptions target;
  ServeArguments serving;
};

std::string explainEntry(const runtime::Plan &plan, const std::string &name) {
  PlanSummary summary(*plan, *llvm::find_if(plan->entries, [&](auto &entry) { return entry.name == name; }));
  std::string page;
  llvm::raw_string_ostream out(page);
  explainAsHtml(out, summary, timelineOf(plan, summary));
  return page;
}

int serveModel(ServeModelOptions &options) {
  options.model.model = options.serving.options.plans.front();
  auto compiled = compileModel({options.model, options.target, nullptr, "", ""}, console());
  if (!compiled)
    return report(compiled.error());
  auto plan = openPlan(*compiled);
  if (!plan)
    return report(plan.error());
  std::vector<runtime::serve::PreparedPlan> prepared;
  prepared.push_back({std::filesystem::path(options.model.model).stem().string(), options.model.model, *plan,
                      std::make_shared<WeightsSource>(compiled->imported)});
  options.serving.options.plans.clear();
  return runtime::serve::serveCommand(options.serving.complete(), std::move(prepared), std::cout, std::cerr);
}

/// Whether what is to be served is a model to compile: one alone, that is no plan.
bool isModel(const std::vector<std::string> &plans) {
  return plans.size() == 1 && std::filesystem::exists(plans.front()) && !isPlanFile(plans.front());
}

} // namespace

void addServeCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ServeModelOptions>();
  CLI::App *command = app.add_subcommand("serve", "Answers requests over HTTP and gRPC, by plans or by a model.");
  command->add_option(
      "MODEL|PLAN", options->serving.options.plans,
      "plans, or NAME=PLAN; or a model, which is compiled in memory, as with --max-batch 32; or --models");
  addModelDimOptions(*command, options->model);
  addTargetOptions(*command, options->target);
  addServeArguments(*command, options->serving);
  options->serving.options.explain = explainEntry;
  command->callback([options, command, &chosen] {
    chosen = [options, command] {
      if (isModel(options->serving.options.plans)) {
        for (const char *name : {"--no-native", "--trust-plan"})
          if (command->count(name) != 0)
            return report(makeError(Status::Usage, name, " expects a plan; a model's code is made on the spot"));
        return serveModel(*options);
      }
      if (const char *name = findGivenOption(*command, {"--dim", "--weights"}))
        return report(makeError(Status::Usage, name, " expects a model; a plan has its devices already"));
      return runtime::serve::serveCommand(options->serving.complete(), {}, std::cout, std::cerr);
    };
  });
}

} // namespace cleave::tool
