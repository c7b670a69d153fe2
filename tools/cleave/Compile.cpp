// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave compile`: a model and a machine to a plan.

#include "compiler/CompileModel.h"
#include "compiler/Figures.h"
#include "runtime/Printable.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/ModelArguments.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/PlanSummary.h"
#include "tools/cleave/Reproducer.h"

#include "llvm/Support/Format.h"

#include <CLI/CLI.hpp>
#include <filesystem>

namespace cleave::tool {
namespace {

struct CompileOptions {
  ModelOptions model;
  TargetOptions target;
  std::string output, emitIr, json;
  bool timing = false;
};

Error writeResult(const CompileOptions &options, const CompiledModel &compiled) {
  if (options.output == "-" && !compiled.weights.isEmpty())
    return makeError(Status::Usage,
                     "-o - expects a model with its weights in files, as nothing is beside standard "
                     "output; got ",
                     compiled.weights.getNumBytes(), " bytes of weights that go to a file beside the plan");
  if (options.output != "-")
    return writePlan(compiled, options.output);
  return writeBinary("-", [&](llvm::raw_ostream &out) { out.write(compiled.plan.data(), compiled.plan.size()); });
}

Error writeReport(const CompileOptions &options, const CompiledModel &compiled) {
  auto plan = openPlan(compiled);
  if (!plan)
    return plan.error();
  PlanSummary summary(**plan, (*plan)->entries.front());
  return writeJson(options.json, [&](JsonStream &json) {
    writeSummary(json, summary);
    json.attribute("machine", options.target.machine);
    json.attribute("plan_bytes", static_cast<int64_t>(compiled.plan.size()));
    json.attribute("weights_bytes", compiled.weights.getNumBytes());
    json.attribute("search_seconds", compiled.secondsOf("place"));
    json.attribute("compile_seconds", compiled.totalSeconds());
    json.attributeObject("stage_seconds", [&] {
      for (const StageTime &time : compiled.times)
        json.attribute(time.stage, time.seconds);
    });
  });
}

void printTiming(const CompiledModel &compiled) {
  for (const StageTime &time : compiled.times)
    llvm::errs() << llvm::format("%10.1f ms  ", time.seconds * 1e3) << time.stage << "\n";
  llvm::errs() << llvm::format("%10.1f ms  all stages\n", compiled.totalSeconds() * 1e3);
}

/// A line about the plan, and what makes predictions better, where there are some.
Error printResult(const CompileOptions &options, const CompiledModel &compiled) {
  auto plan = openPlan(compiled);
  if (!plan)
    return plan.error();
  const auto &prediction = (*plan)->entries.front().prediction;
  if (prediction)
    for (const std::string &note : compiled.machineNotes)
      printNote(note);
  // What is written to standard output stands there alone.
  if (options.output == "-" || options.json == "-")
    return Error::success();
  llvm::outs() << "wrote " << runtime::printable(options.output);
  if (prediction)
    llvm::outs() << ((*plan)->replicas ? ": predicted step of a replica " : ": predicted step ")
                 << secondsText(prediction->bestSeconds()) << " on " << runtime::printable(prediction->machine)
                 << "; cleave explain shows more";
  llvm::outs() << "\n";
  return Error::success();
}

/// Nothing that is read is written, and no file twice.
Error checkOutputs(const CompileOptions &options) {
  auto same = [](const std::string &left, const std::string &right) {
    std::error_code code;
    return !left.empty() && (left == right || std::filesystem::equivalent(left, right, code));
  };
  if (same(options.output, options.model.model))
    return makeError(Status::Usage, "-o expects another file than the model, got \"", options.output, '"');
  for (const std::string &other : {options.model.model, options.output})
    if (same(options.json, other))
      return makeError(Status::Usage, "--json expects another file than the model and the plan, got \"", options.json,
                       '"');
  return Error::success();
}

Error compile(const CompileOptions &options) {
  if (options.output.empty() && options.emitIr.empty())
    return makeError(Status::Usage, "compile expects -o PLAN, got none");
  if (Error error = checkOutputs(options))
    return error;
  if (options.emitIr.empty())
    if (Error error = checkBinaryOutput("-o", options.output))
      return error;
  CompileRequest request{options.model, options.target, nullptr, options.emitIr.empty() ? options.output : "",
                         options.emitIr};
  auto compiled = compileModel(request, console());
  if (!compiled)
    return compiled.error();
  if (options.timing)
    printTiming(*compiled);
  if (!options.emitIr.empty())
    return writeOutput(options.output.empty() ? "-" : options.output,
                       [&](llvm::raw_ostream &out) { out << compiled->ir; });
  if (Error error = writeResult(options, *compiled))
    return error;
  if (Error error = printResult(options, *compiled))
    return error;
  return options.json.empty() ? Error::success() : writeReport(options, *compiled);
}

} // namespace

void addCompileCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App *command = app.add_subcommand("compile", "Decides where every operator of a model runs and makes a plan.");
  addModelOptions(*command, options->model);
  addTargetOptions(*command, options->target);
  addOutputOption(*command, "-o,--output", options->output,
                  "the plan; its parameters go to PLAN.weights beside it, except those in files below its folder")
      ->type_name("PLAN");
  std::vector<std::string> stages(std::begin(irStages), std::end(irStages));
  command->add_option("--emit-ir", options->emitIr, "stop after this stage and show the module")
      ->type_name("STAGE")
      ->check(CLI::IsMember(stages));
  addOutputOption(*command, "--json", options->json, "where a report goes");
  command->add_flag("--timing", options->timing, "how long each stage took, on standard error");
  command->callback([options, &chosen] { chosen = [options] { return report(compile(*options)); }; });
}

} // namespace cleave::tool
