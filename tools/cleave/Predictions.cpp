// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every model is compiled in several ways, each a case. Cases take turns, in each of which first the kernels of a case
// are measured by themselves, then its steps, so that a slow minute of the machine does not fall on one case, and not
// on what is predicted or what is measured alone.

#include "tools/cleave/Predictions.h"
#include "tools/cleave/Diagnostics.h"

#include "compiler/Figures.h"
#include "compiler/HostProfile.h"
#include "compiler/PlanMachine.h"
#include "compiler/PlanWeights.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/PlanRunner.h"
#include "tools/cleave/PredictionCases.h"
#include "tools/cleave/TextTable.h"

#include "passes/cost/HostCache.h"
#include "runtime/Verify.h"
#include "runtime/run/RunReport.h"
#include "runtime/simulator/Simulator.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"

#include <cmath>
#include <filesystem>

namespace cleave::tool {
namespace {

/// A plan, what is predicted of it, and what it does.
struct Case {
  std::string model, plan, machine;
  std::optional<CompiledModel> compiled;
  std::optional<runtime::Plan> opened;
  double predicted = 0, predictedBytes = 0, measuredBytes = 0;
  std::vector<double> rounds; ///< median seconds of each

  double measured() const {
    std::vector<double> sorted = rounds;
    std::ranges::sort(sorted);
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
  double error() const { return predicted / measured() - 1; }
};

/// What all cases together say.
struct Summary {
  double medianError = 0;
  double tau = 0;         ///< Kendall's, of all pairs of plans
  double tauOfModels = 0; ///< of the pairs of plans of one model
  bool memoryIsExact = true;
};

/// A folder for files that go when it goes.
class Scratch {
public:
  Scratch() { (void)llvm::sys::fs::createUniqueDirectory("cleave-predictions", path); }
  ~Scratch() { (void)llvm::sys::fs::remove_directories(path); }
  std::string file(const llvm::Twine &name) const { return (llvm::StringRef(path) + "/" + name).str(); }

private:
  llvm::SmallString<128> path;
};

class Predictions {
public:
  explicit Predictions(const PredictionOptions &options) : options(options) {}

  Error run() {
    auto models = choosePredictions(options.train, options.models, options.plans);
    if (!models)
      return models.error();
    for (const PredictedModel &model : *models)
      if (Error error = addModel(model))
        return error;
    std::vector<runtime::Profile> profiles(options.rounds);
    for (unsigned round = 0; round != options.rounds; ++round)
      for (Case &one : cases) {
        show("round " + llvm::Twine(round + 1) + ": " + one.model + " " + one.plan);
        const runtime::Plan &plan = *one.opened;
        if (Error error = measureEntry(plan, plan->entries[0], profiles[round]))
          return error;
        if (Error error = measure(one))
          return error;
      }
    show("");
    auto profile = runtime::Profile::medianOf(profiles);
    for (Case &one : cases)
      if (Error error = predict(one, profile))
        return error;
    return finish();
  }

private:
  Error addModel(const PredictedModel &model);
  Error addCase(const std::string &model, const std::string &file, const PlanWay &way);
  Expected<std::string> halvesOf(const std::string &file);
  static Error predict(Case &one, const runtime::Profile &profile);
  Error measure(Case &one);
  Error finish() const;
  Summary summary() const;
  void print(llvm::raw_ostream &out) const;
  Error writeMarkdown() const;
  void printSection(llvm::raw_ostream &out) const;
  void writeResults(JsonStream &json) const;

  void show(const llvm::Twine &what) const {
    if (llvm::sys::Process::StandardErrIsDisplayed())
      llvm::errs() << "\r\033[K" << what;
  }

  const PredictionOptions &options;
  Scratch scratch;
  std::vector<Case> cases;
};

Error Predictions::addModel(const PredictedModel &model) {
  std::string file = model.model;
  if (!std::filesystem::exists(file)) {
    file = scratch.file("model.onnx");
    if (Error error = writeZooModel(model.model, file))
      return error;
  }
  for (const PlanWay &way : model.ways)
    if (Error error = addCase(model.model, file, way))
      return error;
  return Error::success();
}

/// A placement file with the model's operators in two groups.
Expected<std::string> Predictions::halvesOf(const std::string &file) {
  auto compiled = compileModel(PlanWay{"single", "host:1x1", "single"}.requestFor(file), console());
  if (!compiled)
    return compiled.error();
  auto plan = openPlan(*compiled);
  if (!plan)
    return plan.error();
  const std::vector<runtime::Operator> &operators = (*plan)->entries[0].operators;
  double total = 0, sum = 0;
  for (const runtime::Operator &op : operators)
    total += op.bytes + op.flops;
  std::string lists[2];
  for (const runtime::Operator &op : operators) {
    std::string &list = lists[sum * 2 > total];
    list += (list.empty() ? "\"" : ", \"") + op.name + "\"";
    sum += op.bytes + op.flops;
  }
  std::string place = scratch.file("halves.yaml");
  Error error = writeOutput(place, [&](llvm::raw_ostream &out) {
    out << "groups:\n  first: [" << lists[0] << "]\n  second: [" << lists[1] << "]\ndevices: { first: 0, second: 1 }\n";
  });
  return error ? Expected<std::string>(error) : Expected<std::string>(place);
}

Error Predictions::addCase(const std::string &model, const std::string &file, const PlanWay &way) {
  show("compiling " + model + " " + way.name + " " + way.machine);
  CompileRequest request = way.requestFor(file);
  if (request.target.strategy == "place") {
    auto halves = halvesOf(file);
    if (!halves)
      return halves.error();
    request.target.placementFile = *halves;
  }
  auto compiled = compileModel(request, console());
  if (!compiled)
    return compiled.error();
  Case one;
  one.model = model;
  one.plan = way.name;
  one.machine = way.machine;
  one.compiled.emplace(std::move(*compiled));
  auto plan = openPlan(*one.compiled);
  if (!plan)
    return plan.error();
  one.opened = *plan;
  if (Error error = verifyPlan(*plan))
    return error;
  cases.push_back(std::move(one));
  return Error::success();
}

Error Predictions::predict(Case &one, const runtime::Profile &profile) {
  const runtime::Plan &plan = *one.opened;
  const runtime::Entry &entry = plan->entries[0];
  auto machine = machineOf(plan, one.machine);
  if (!machine)
    return machine.error();
  ProfiledCost cost(*machine, *plan, entry, profile);
  auto result = runtime::simulate(*plan, entry, cost);
  if (!result)
    return result.error();
  one.predicted = result->stepSeconds();
  for (const runtime::SimulatedDevice &device : result->devices)
    one.predictedBytes += device.count * device.arenaBytes;
  return Error::success();
}

/// A round: a few steps to warm up, then at least as many as take a third of a second, but not many of long ones.
Error Predictions::measure(Case &one) {
  static constexpr unsigned warmups = 3, fewest = 5, most = 200;
  static constexpr double enough = 0.35;
  WeightsSource parameters(one.compiled->imported);
  auto executor = runtime::Executor::create(*one.opened, (*one.opened)->entries[0].name, parameters);
  if (!executor)
    return executor.error();
  auto inputs = makeInputs((*executor)->entry(), {});
  auto outputs = makeOutputs((*executor)->entry());
  if (!inputs || !outputs)
    return inputs ? outputs.error() : inputs.error();
  std::vector<double> samples;
  double total = 0;
  for (unsigned step = 0; samples.size() < fewest || (total < enough && samples.size() < most); ++step) {
    auto seconds = runStep(**executor, *inputs, *outputs);
    if (!seconds)
      return seconds.error();
    if (step < warmups)
      continue;
    samples.push_back(*seconds);
    total += *seconds;
  }
  one.rounds.push_back(runtime::latencyOf(std::move(samples)).median);
  one.measuredBytes = 0;
  for (const runtime::DeviceMemory &memory : (*executor)->memory())
    one.measuredBytes += static_cast<double>(memory.allocatedBytes);
  return Error::success();
}

Summary Predictions::summary() const {
  Summary summary;
  std::vector<double> errors;
  double agreements[2] = {}, pairs[2] = {};
  for (size_t i = 0; i != cases.size(); ++i) {
    errors.push_back(std::abs(cases[i].error()));
    summary.memoryIsExact &= cases[i].predictedBytes == cases[i].measuredBytes;
    for (size_t j = 0; j != i; ++j) {
      bool agree = (cases[i].predicted < cases[j].predicted) == (cases[i].measured() < cases[j].measured());
      for (int within = 0; within != (cases[i].model == cases[j].model ? 2 : 1); ++within) {
        agreements[within] += agree ? 1 : -1;
        ++pairs[within];
      }
    }
  }
  std::ranges::sort(errors);
  summary.medianError = errors.empty() ? 0 : errors[errors.size() / 2];
  summary.tau = pairs[0] > 0 ? agreements[0] / pairs[0] : 1;
  summary.tauOfModels = pairs[1] > 0 ? agreements[1] / pairs[1] : 1;
  return summary;
}

std::string percent(double share) { return llvm::formatv("{0:f1} %", share * 100); }

std::vector<std::string> rowOf(const Case &one) {
  return {one.model,
          one.plan,
          one.machine,
          millisecondsText(one.predicted),
          millisecondsText(one.measured()),
          (one.error() > 0 ? "+" : "") + percent(one.error()),
          bytesText(one.predictedBytes),
          one.predictedBytes == one.measuredBytes ? "equal" : bytesText(one.measuredBytes)};
}

constexpr const char *titles[] = {"model",       "plan",  "devices", "predicted ms",
                                  "measured ms", "error", "memory",  "allocated"};

std::string summaryText(const Summary &summary, size_t count) {
  return llvm::formatv("{0} plans: median error of time {1}, Kendall's tau {2:f2} ({3:f2} among plans of one model), "
                       "memory {4}",
                       count, percent(summary.medianError), summary.tau, summary.tauOfModels,
                       summary.memoryIsExact ? "exact" : "not exact");
}

void Predictions::print(llvm::raw_ostream &out) const {
  std::vector<TextTable::Column> columns;
  for (size_t i = 0; i != std::size(titles); ++i)
    columns.push_back({titles[i], i < 3 ? TextTable::Align::Left : TextTable::Align::Right, i == 0 ? 16u : 0u});
  TextTable table(std::move(columns));
  for (const Case &one : cases)
    table.addRow(rowOf(one));
  table.print(out);
  out << "\n" << summaryText(summary(), cases.size()) << "\n";
}

/// The section of what has been measured; the other one stays.
Error Predictions::writeMarkdown() const {
  static constexpr llvm::StringRef trainingHead = "\n## Training\n";
  std::string before, after;
  if (auto file = llvm::MemoryBuffer::getFile(options.markdown)) {
    llvm::StringRef text = (*file)->getBuffer();
    size_t training = std::min(text.find(trainingHead), text.size());
    before = text.take_front(training);
    after = text.drop_front(training);
  }
  if (before.empty())
    before = "# Predictions\n";
  return writeOutput(options.markdown, [&](llvm::raw_ostream &out) {
    if (options.train) {
      out << before << trainingHead << "\n";
      printSection(out);
      return;
    }
    out << "# Predictions\n\nWhat `cleave simulate` predicts of a step, beside what it takes, on one machine. Kernels "
           "are measured by themselves,\nas `cleave profile` does it; of the plans' steps nothing enters the "
           "predictions. "
           "In each round all plans take turns: first\na plan's kernels are measured, then its steps. Both times are "
           "medians of the rounds' medians.\n\n## Inference\n\n";
    printSection(out);
    out << after;
  });
}

void Predictions::printSection(llvm::raw_ostream &out) const {
  out << "By `cleave bench --predictions " << (options.train ? "--train " : "") << "--rounds " << options.rounds
      << " --write docs/predictions.md`.\n";
  if (options.train)
    out << "Steps of training: forward, backward, optimizer. `data` trains with momentum, `zero` with Adam's state "
           "divided,\nthe others by plain gradients; pipelines have 4 microbatches.\n";
  out << "\n"
      << hostProcessor() << ", " << hostCores() << " cores. " << summaryText(summary(), cases.size()) << ".\n\n|";
  for (const char *title : titles)
    out << " " << title << " |";
  out << "\n|";
  for (size_t i = 0; i != std::size(titles); ++i)
    out << (i < 3 ? "---|" : "---:|");
  for (const Case &one : cases) {
    out << "\n|";
    for (const std::string &cell : rowOf(one))
      out << " " << cell << " |";
  }
  out << "\n";
}

void Predictions::writeResults(JsonStream &json) const {
  Summary sums = summary();
  json.attribute("processor", hostProcessor());
  json.attribute("median_error", sums.medianError);
  json.attribute("kendall_tau", sums.tau);
  json.attribute("kendall_tau_of_models", sums.tauOfModels);
  json.attribute("memory_exact", sums.memoryIsExact);
  json.attributeArray("predictions", [&] {
    for (const Case &one : cases)
      json.object([&] {
        json.attribute("model", one.model);
        json.attribute("plan", one.plan);
        json.attribute("machine", one.machine);
        json.attribute("predicted_seconds", one.predicted);
        json.attribute("measured_seconds", one.measured());
        json.attribute("predicted_bytes", one.predictedBytes);
        json.attribute("allocated_bytes", one.measuredBytes);
      });
  });
}

Error Predictions::finish() const {
  if (!options.json.empty())
    if (Error error = writeJson(options.json, [&](JsonStream &json) { writeResults(json); }))
      return error;
  if (!options.markdown.empty())
    if (Error error = writeMarkdown())
      return error;
  return writeText(options.json, [&](llvm::raw_ostream &out) { print(out); });
}

} // namespace

Error benchPredictions(const PredictionOptions &options) { return Predictions(options).run(); }

} // namespace cleave::tool
