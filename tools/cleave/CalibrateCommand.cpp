// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave calibrate`: makes a machine file that explains what was measured, of single operators or of whole steps.

#include "compiler/Figures.h"
#include "compiler/HostProfile.h"
#include "compiler/PlanMachine.h"
#include "passes/cost/Calibration.h"
#include "passes/cost/MachineFile.h"
#include "passes/cost/YamlValue.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/DecisionCost.h"
#include "tools/cleave/EntryChoice.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/TextTable.h"

#include "runtime/Verify.h"
#include "runtime/simulator/Simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {
namespace {

using Align = TextTable::Align;

struct CalibrateOptions {
  std::vector<std::string> steps;
  std::string operators, machine, output, json;
};

/// A plan that was run, and what its step took.
struct MeasuredStep {
  std::string file;
  runtime::Plan plan;
  double measured = 0;
  double predicted = 0; ///< Without a factor on whole steps.
};

struct Calibrated {
  Machine before, machine;
  std::vector<MeasuredOperator> operators;
  std::vector<CalibratedClass> classes;
  std::vector<MeasuredStep> steps;
};

/// "PLAN=SECONDS".
Expected<MeasuredStep> readStep(const std::string &text) {
  auto [file, seconds] = llvm::StringRef(text).rsplit('=');
  MeasuredStep step;
  step.file = file.str();
  if (!llvm::to_float(seconds, step.measured) || !(step.measured >= 1e-9 && step.measured <= 1e9))
    return makeError(Status::Usage,
                     "expected a plan and the seconds of its step, from 1e-9 to 1e9, as in "
                     "gpt.plan=1.42; got \"",
                     text, "\"");
  auto plan = runtime::readVerifiedPlan(step.file);
  if (!plan)
    return plan.error();
  step.plan = std::move(*plan);
  return step;
}

/// The entry that a step of the plan runs.
Expected<const runtime::Entry *> entryOf(const MeasuredStep &step) {
  auto entries = chooseEntries(step.plan, "");
  if (!entries)
    return entries.error();
  return entries->front();
}

/// What a step takes on a machine whose file is at `path`.
Expected<double> predictOn(const MeasuredStep &step, const runtime::Entry &entry, const std::string &path) {
  if (isDecision(entry)) {
    auto compiled = costDecision(step.plan, entry, path);
    if (!compiled)
      return compiled.error();
    auto costed = openPlan(*compiled);
    if (!costed)
      return costed.error();
    return (*costed)->entries.front().prediction->bestSeconds();
  }
  auto machine = machineOf(step.plan, path);
  if (!machine)
    return machine.error();
  runtime::Profile profile = readHostProfile(console());
  std::unique_ptr<PlanCost> cost = costOf(*machine, step.plan, entry, profile);
  auto result = runtime::simulate(*step.plan, entry, *cost, {});
  if (!result)
    return result.error();
  return result->stepSeconds();
}

/// Removes a file at the end of its life.
struct TemporaryFile {
  llvm::SmallString<128> path;
  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }
};

/// Predicts the steps on the machine, its factor on steps left out.
Error predictSteps(Calibrated &calibrated) {
  Machine machine = calibrated.machine;
  machine.calibration = {};
  TemporaryFile file;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("cleave-machine", "yaml", file.path))
    return makeError(Status::Failure, "cannot make a temporary file: ", code.message());
  if (Error error = writeOutput(file.path, [&](llvm::raw_ostream &out) { writeMachineFile(machine, out); }))
    return error;
  for (MeasuredStep &step : calibrated.steps) {
    auto entry = entryOf(step);
    if (!entry)
      return entry.error();
    auto predicted = predictOn(step, **entry, file.path.str().str());
    if (!predicted)
      return predicted.error();
    if (!(*predicted > 0))
      return makeError(Status::Usage, step.file, ": nothing predicts a step of this plan; compile it for a machine");
    step.predicted = *predicted;
  }
  return Error::success();
}

/// `--machine`, else that of the first plan.
Expected<Machine> machineToCalibrate(const CalibrateOptions &options, llvm::ArrayRef<MeasuredStep> steps) {
  if (!options.machine.empty())
    return readMachine(options.machine);
  if (steps.empty())
    return makeError(Status::Usage, "--operators expects --machine, which they are measured on");
  auto entry = entryOf(steps.front());
  if (!entry)
    return entry.error();
  return machineOf(steps.front().plan, **entry, "");
}

Error learnOperators(const CalibrateOptions &options, Calibrated &calibrated) {
  if (options.operators.empty())
    return Error::success();
  auto text = readTextFile(options.operators);
  if (!text)
    return fromLlvm(Status::Failure, text.takeError());
  auto operators = parseMeasuredOperators(*text, options.operators);
  if (!operators)
    return fromLlvm(Status::Failure, operators.takeError());
  for (const MeasuredOperator &measured : *operators)
    if (!calibrated.machine.kinds.contains(measured.kind)) {
      std::vector<std::string> kinds;
      for (auto &[name, kind] : calibrated.machine.kinds)
        kinds.push_back(name);
      return makeError(Status::Usage, options.operators, ": the machine \"", calibrated.machine.name,
                       "\" has no kind \"", measured.kind, "\" but ", llvm::join(kinds, ", "));
    }
  calibrated.operators = std::move(*operators);
  calibrated.classes = calibrate(calibrated.machine, calibrated.operators);
  return Error::success();
}

void printClasses(llvm::raw_ostream &out, const Calibrated &calibrated) {
  if (calibrated.operators.empty())
    return;
  TextTable table({{"kind", Align::Left},
                   {"kernels", Align::Left},
                   {"operators", Align::Right},
                   {"share times", Align::Right},
                   {"error before", Align::Right},
                   {"after", Align::Right}});
  for (const CalibratedClass &learnt : calibrated.classes)
    table.addRow({learnt.kind, learnt.key, std::to_string(learnt.operators), fixedText(learnt.factor, 3),
                  percentText(learnt.before, 1), percentText(learnt.after, 1)});
  out << "learnt from " << countText(calibrated.operators.size(), "operator") << ":\n";
  table.print(out);
}

void printSteps(llvm::raw_ostream &out, const Calibrated &calibrated) {
  if (calibrated.steps.empty())
    return;
  TextTable table({{"plan", Align::Left, 20},
                   {"measured", Align::Right},
                   {"predicted", Align::Right},
                   {"error", Align::Right},
                   {"calibrated", Align::Right},
                   {"error", Align::Right}});
  for (const MeasuredStep &step : calibrated.steps) {
    double after = step.predicted * calibrated.machine.calibration.step;
    table.addRow({step.file, secondsText(step.measured), secondsText(step.predicted),
                  changeText(step.predicted, step.measured), secondsText(after), changeText(after, step.measured)});
  }
  table.print(out);
  out << "everything takes " << fixedText(calibrated.machine.calibration.step, 3) << " times as long\n";
}

void writeResults(JsonStream &json, const Calibrated &calibrated) {
  json.attribute("machine", calibrated.machine.name);
  json.attribute("step_factor", calibrated.machine.calibration.step);
  json.attributeArray("classes", [&] {
    for (const CalibratedClass &learnt : calibrated.classes)
      json.object([&] {
        json.attribute("kind", learnt.kind);
        json.attribute("class", learnt.key);
        json.attribute("operators", learnt.operators);
        json.attribute("factor", learnt.factor);
        json.attribute("error_before", learnt.before);
        json.attribute("error_after", learnt.after);
      });
  });
  json.attributeArray("operators", [&] {
    for (const MeasuredOperator &measured : calibrated.operators)
      json.object([&] {
        json.attribute("operator", measured.name);
        json.attribute("kind", measured.kind);
        json.attribute("dtype", measured.elementType);
        json.attribute("measured_seconds", measured.seconds);
        json.attribute("predicted_seconds", predictedSeconds(measured, calibrated.before));
        json.attribute("calibrated_seconds", predictedSeconds(measured, calibrated.machine));
      });
  });
  json.attributeArray("steps", [&] {
    for (const MeasuredStep &step : calibrated.steps)
      json.object([&] {
        json.attribute("plan", step.file);
        json.attribute("measured_seconds", step.measured);
        json.attribute("predicted_seconds", step.predicted);
        json.attribute("calibrated_seconds", step.predicted * calibrated.machine.calibration.step);
      });
  });
}

/// What the machine file says of itself.
std::string commentOf(const CalibrateOptions &options, const Calibrated &calibrated) {
  std::string comment = calibrated.before.name + " as measured:";
  for (const CalibratedClass &learnt : calibrated.classes)
    comment += "\n" + learnt.kind + " " + learnt.key + ": share times " + fixedText(learnt.factor, 3) + ", by " +
               countText(learnt.operators, "operator") + " of " + options.operators;
  for (const MeasuredStep &step : calibrated.steps)
    comment += "\n" + step.file + ": " + secondsText(step.measured) + " measured, " + secondsText(step.predicted) +
               " predicted without a factor";
  return comment;
}

Error calibrateMachine(const CalibrateOptions &options) {
  if (options.steps.empty() && options.operators.empty())
    return makeError(Status::Usage, "expected plans with the seconds of their steps (gpt.plan=1.42), --operators, or "
                                    "both; got neither");
  Calibrated calibrated;
  for (const std::string &text : options.steps) {
    auto step = readStep(text);
    if (!step)
      return step.error();
    calibrated.steps.push_back(std::move(*step));
  }
  auto machine = machineToCalibrate(options, calibrated.steps);
  if (!machine)
    return machine.error();
  calibrated.before = calibrated.machine = std::move(*machine);
  if (Error error = learnOperators(options, calibrated))
    return error;
  if (!calibrated.steps.empty()) {
    if (Error error = predictSteps(calibrated))
      return error;
    std::vector<std::pair<double, double>> pairs;
    for (const MeasuredStep &step : calibrated.steps)
      pairs.emplace_back(step.measured, step.predicted);
    calibrated.machine.calibration = {stepFactor(pairs), static_cast<unsigned>(pairs.size())};
  }
  if (!options.output.empty())
    if (Error error = writeOutput(options.output, [&](llvm::raw_ostream &out) {
          writeMachineFile(calibrated.machine, out, commentOf(options, calibrated));
        }))
      return error;
  if (!options.json.empty())
    if (Error error = writeJson(options.json, [&](JsonStream &json) { writeResults(json, calibrated); }))
      return error;
  bool toStandardOutput = options.output == "-" || options.json == "-";
  return writeText(toStandardOutput ? "-" : "", [&](llvm::raw_ostream &out) {
    printClasses(out, calibrated);
    printSteps(out, calibrated);
  });
}

} // namespace

void addCalibrateCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App *command = app.add_subcommand(
      "calibrate", "Makes a machine file of what was measured: seconds of plans' steps, or of single operators.");
  command->add_option("PLAN=SECONDS", options->steps, "plans that were run, with the seconds of their steps");
  command
      ->add_option("--operators", options->operators,
                   "a CSV file of measured operators: operator,kind,dtype,kernels,seconds")
      ->type_name("FILE");
  command->add_option("--machine", options->machine, "the machine as known so far; default: the first plan's");
  addOutputOption(*command, "-o,--output", options->output, "the machine file; - for standard output");
  addOutputOption(*command, "--json", options->json, "where the results go as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(calibrateMachine(*options)); }; });
}

} // namespace cleave::tool
