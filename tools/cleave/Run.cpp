// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave run`: runs a plan, or compiles a model in memory and runs that.

#include "compiler/CompileModel.h"
#include "compiler/PlanWeights.h"
#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave-run/PlanTrust.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/ModelArguments.h"
#include "tools/cleave/PlanRunner.h"

#include "runtime/run/RunCommand.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {
namespace {

struct RunCommandOptions {
  ModelOptions model;
  TargetOptions target;
  runtime::RunOptions run;
  PlanTrust trust;
};

int runPlanFile(const RunCommandOptions &options) {
  auto plan = runtime::Plan::read(options.model.model);
  if (!plan)
    return report(plan.error());
  if (Error error = options.trust.check(*plan, options.model.model))
    return report(error);
  runtime::FolderSource parameters(plan->folder());
  return runPlan(*plan, parameters, options.run);
}

int runModel(const RunCommandOptions &options) {
  auto inputs = InputFiles::create(options.run.inputs);
  if (!inputs)
    return report(inputs.error());
  auto compiled = compileModel({options.model, options.target, &*inputs, "", ""}, console());
  if (!compiled)
    return report(compiled.error());
  auto plan = openPlan(*compiled);
  if (!plan)
    return report(plan.error());
  WeightsSource parameters(compiled->imported);
  return runPlan(*plan, parameters, options.run);
}

} // namespace

void addRunCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App *command = app.add_subcommand("run", "Runs a plan, or a model, on tensor files.");
  command->add_option("MODEL|PLAN", options->model.model, "a plan; or a model, which is compiled in memory")
      ->required();
  addModelDimOptions(*command, options->model);
  addTargetOptions(*command, options->target);
  options->trust.addTo(*command);
  runtime::RunOptions &run = options->run;
  auto addBinding = [&](const char *name, std::vector<std::string> &bindings, const char *help) {
    command->add_option(name, bindings, help)->type_name("NAME=FILE")->allow_extra_args(false);
  };
  addBinding("--input", run.inputs, "an input's tensor, by name or by position as in @0=FILE");
  addBinding("--expect", run.expects, "what an output should be");
  addTensorOutputOption(*command, "--output", run.outputs,
                        "where an output goes; FILE.npz without a name: all, by their names");
  command->add_option("--rtol", run.rtol, "relative tolerance of --expect")->check(notNegative)->capture_default_str();
  command->add_option("--atol", run.atol, "absolute tolerance of --expect")->check(notNegative)->capture_default_str();
  command->add_option("--repeat", run.repeat, "how many steps to run")->check(positive)->capture_default_str();
  command->add_option("--warmup", run.warmup, "steps before those that are measured")->capture_default_str();
  command->add_option("--duration", run.duration, "how many seconds to run for, instead of --repeat")
      ->type_name("SECONDS")
      ->check(positive);
  command->add_flag("--profile", run.profile, "what each node of the model took, as a table");
  command->add_option("--in-flight", run.inFlight, "how many steps at the same time")
      ->check(positive)
      ->capture_default_str();
  addOutputOption(*command, "--trace", run.traceFile, "where a trace for Perfetto goes");
  addOutputOption(*command, "--json", run.jsonFile, "where the results go as JSON");
  command->callback([options, command, &chosen] {
    chosen = [options, command] {
      if (!isPlanFile(options->model.model)) {
        for (const char *name : {"--no-native", "--trust-plan"})
          if (command->count(name) != 0)
            return report(makeError(Status::Usage, name, " expects a plan; a model's code is made on the spot"));
        return runModel(*options);
      }
      if (const char *name = findGivenOption(*command, {"--dim", "--weights"}))
        return report(makeError(Status::Usage, name, " expects a model; a plan has its devices already"));
      return runPlanFile(*options);
    };
  });
}

} // namespace cleave::tool
