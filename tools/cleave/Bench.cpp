// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave bench`: how long a model takes on one device, alone or next to a peer. Ours and the peer take turns: in each
// round ours runs first, then the peer in a process that ends before the next round, so that neither disturbs the
// other. A result is the median over the rounds' medians. Or, with --collectives, how fast devices exchange.

#include "compiler/CompileModel.h"
#include "compiler/Figures.h"
#include "compiler/PlanWeights.h"
#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/BenchSuite.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/PlanRunner.h"
#include "tools/cleave/Predictions.h"
#include "tools/cleave/TextTable.h"

#include "runtime/Verify.h"
#include "runtime/profile/CollectiveBench.h"
#include "runtime/run/RunReport.h"

#include "llvm/Support/Format.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

namespace cleave::tool {
namespace {

struct BenchOptions {
  std::vector<std::string> models, dims, plans;
  std::vector<unsigned> threads = {1};
  unsigned repeat = 20, warmup = 3, rounds = 5;
  std::string against, peerScript, json, suite;
  bool reference = false, noLibraries = false, measuresCollectives = false, predicts = false, trains = false;
  std::string markdown;
  runtime::CollectiveBenchOptions collectives;
};

struct BenchResult {
  std::string model;
  unsigned threads = 1;
  double ours = 0;            ///< milliseconds
  std::optional<double> peer; ///< milliseconds
  std::string variant;        ///< the peer's fastest way in the last round, where it has several
};

/// A model on one device, ready to run.
class ReadyModel {
public:
  Error prepare(const BenchOptions &options, const std::string &model, unsigned threads) {
    std::vector<std::string> bindings;
    for (const auto &[name, file] : testInputs(model))
      bindings.push_back((llvm::Twine(name) + "=" + file).str());
    auto files = InputFiles::create(bindings);
    if (!files)
      return files.error();
    CompileRequest request;
    request.model.model = model;
    request.model.dims = options.dims;
    request.target.machine = "host:1x" + std::to_string(threads);
    request.target.strategy = "single";
    request.target.reference = options.reference;
    request.target.noLibraries = options.noLibraries;
    request.inputs = &*files;
    auto result = compileModel(request, console());
    if (!result)
      return result.error();
    compiled.emplace(std::move(*result));
    auto plan = openPlan(*compiled);
    if (!plan)
      return plan.error();
    if (Error error = verifyPlan(*plan))
      return error;
    parameters.emplace(compiled->imported);
    auto made = runtime::Executor::create(*plan, "", *parameters);
    if (!made)
      return made.error();
    executor = std::move(*made);
    auto inputTensors = makeInputs(executor->entry(), bindings);
    if (!inputTensors)
      return inputTensors.error();
    inputs = std::move(*inputTensors);
    auto outputTensors = makeOutputs(executor->entry());
    if (!outputTensors)
      return outputTensors.error();
    outputs = std::move(*outputTensors);
    return Error::success();
  }

  /// The median in milliseconds.
  Expected<double> measure(unsigned warmup, unsigned repeat) {
    std::vector<double> milliseconds;
    for (unsigned i = 0; i != warmup + repeat; ++i) {
      auto seconds = runStep(*executor, inputs, outputs);
      if (!seconds)
        return seconds.error();
      if (i >= warmup)
        milliseconds.push_back(*seconds * 1e3);
    }
    return median(std::move(milliseconds));
  }

private:
  std::optional<CompiledModel> compiled;
  std::optional<WeightsSource> parameters;
  std::unique_ptr<runtime::Executor> executor;
  std::vector<runtime::HostTensor> inputs, outputs;
};

Expected<BenchResult> measureModel(const BenchOptions &options, const std::string &model, unsigned threads,
                                   const BenchPeer *peer, std::string &peerVersion) {
  ReadyModel subject;
  if (Error error = subject.prepare(options, model, threads))
    return error;
  std::vector<double> ours, theirs;
  std::string variant;
  for (unsigned round = 0; round != options.rounds; ++round) {
    auto mine = subject.measure(options.warmup, options.repeat);
    if (!mine)
      return mine.error();
    ours.push_back(*mine);
    if (!peer)
      continue;
    auto other = peer->measure({model, testInputs(model), sizesOf(options.dims), threads, options.repeat});
    if (!other)
      return other.error();
    theirs.push_back(other->medianMilliseconds);
    peerVersion = other->version;
    variant = other->variant;
  }
  BenchResult result{shortName(model), threads, median(std::move(ours)), std::nullopt, variant};
  if (peer)
    result.peer = median(std::move(theirs));
  return result;
}

void printResults(llvm::raw_ostream &out, const BenchOptions &options, const std::vector<BenchResult> &results,
                  const std::string &peerVersion) {
  std::vector<TextTable::Column> columns = {{"model", TextTable::Align::Left, 20},
                                            {"threads", TextTable::Align::Right},
                                            {"ours ms", TextTable::Align::Right}};
  if (!options.against.empty()) {
    columns.push_back({options.against + " " + peerVersion + " ms", TextTable::Align::Right});
    columns.push_back({"ratio", TextTable::Align::Right});
    if (llvm::any_of(results, [](const BenchResult &result) { return !result.variant.empty(); }))
      columns.push_back({"fastest with", TextTable::Align::Left});
  }
  TextTable table(std::move(columns));
  for (const BenchResult &result : results) {
    std::vector<std::string> row = {result.model, std::to_string(result.threads), fixedText(result.ours, 3)};
    if (result.peer) {
      row.push_back(fixedText(*result.peer, 3));
      row.push_back(fixedText(result.ours / *result.peer, 2));
      if (!result.variant.empty())
        row.push_back(result.variant);
    }
    table.addRow(std::move(row));
  }
  table.print(out);
}

void writeResults(JsonStream &json, const BenchOptions &options, const std::vector<BenchResult> &results,
                  const std::string &peerVersion) {
  if (!options.against.empty()) {
    json.attribute("peer", options.against);
    json.attribute("peer_version", peerVersion);
  }
  json.attribute("repeat", options.repeat);
  json.attribute("rounds", options.rounds);
  json.attributeArray("results", [&] {
    for (const BenchResult &result : results)
      json.object([&] {
        json.attribute("model", result.model);
        json.attribute("threads", result.threads);
        json.attribute("ours_ms", result.ours);
        if (result.peer) {
          json.attribute("peer_ms", *result.peer);
          json.attribute("ratio", result.ours / *result.peer);
          if (!result.variant.empty())
            json.attribute("peer_variant", result.variant);
        }
      });
  });
}

Error bench(const BenchOptions &options) {
  std::optional<BenchPeer> peer;
  if (!options.against.empty()) {
    auto made = BenchPeer::create(options.against, options.peerScript);
    if (!made)
      return made.error();
    peer = std::move(*made);
  }
  std::vector<BenchResult> results;
  std::string peerVersion;
  for (const std::string &model : options.models)
    for (unsigned threads : options.threads) {
      auto result = measureModel(options, model, threads, peer ? &*peer : nullptr, peerVersion);
      if (!result)
        return result.error();
      results.push_back(std::move(*result));
    }
  if (Error error =
          writeText(options.json, [&](llvm::raw_ostream &out) { printResults(out, options, results, peerVersion); }))
    return error;
  if (options.json.empty())
    return Error::success();
  return writeJson(options.json, [&](JsonStream &json) { writeResults(json, options, results, peerVersion); });
}

/// Every model of a folder.
Error benchFolder(const BenchOptions &options) {
  if (!options.models.empty() || options.measuresCollectives || options.predicts)
    return Error(Status::Usage, "--suite expects no other models and no other benchmark");
  std::vector<std::string> flags;
  if (options.reference)
    flags.push_back("--reference");
  if (options.noLibraries)
    flags.push_back("--no-libraries");
  return benchSuite({options.suite, options.against, options.peerScript, options.dims, options.threads, options.repeat,
                     options.warmup, options.rounds, flags, options.json, options.markdown});
}

int run(BenchOptions &options) {
  if (!options.suite.empty())
    return report(benchFolder(options));
  if (!options.markdown.empty() && !options.predicts)
    return report(Error(Status::Usage, "--write expects --suite or --predictions"));
  if (options.predicts)
    return report(benchPredictions(
        {options.models, options.plans, options.trains, options.rounds, options.json, options.markdown}));
  if (options.measuresCollectives == !options.models.empty())
    return report(Error(Status::Usage, "expected either models or --collectives; cleave bench --help shows more"));
  if (!options.measuresCollectives)
    return report(bench(options));
  options.collectives.rounds = options.rounds;
  options.collectives.jsonFile = options.json;
  return runtime::runCollectiveBench(options.collectives, std::cout, std::cerr);
}

void addCollectiveOptions(CLI::App &command, BenchOptions &options) {
  CLI::Option *flag = command.add_flag("--collectives", options.measuresCollectives,
                                       "measure collectives between devices of this process instead");
  command.add_option("--operations", options.collectives.operations, "which collectives, by commas; otherwise all")
      ->delimiter(',')
      ->check(CLI::IsMember(runtime::collectiveNames()))
      ->needs(flag);
  command.add_option("--sizes", options.collectives.sizes, "their sizes by commas, as in 64KiB,64MiB")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->needs(flag);
  command.add_option("--devices", options.collectives.devices, "between how many devices")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str()
      ->needs(flag);
}

} // namespace

void addBenchCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App *command =
      app.add_subcommand("bench", "Measures models on one device, alone or against a peer; or collectives.");
  command->add_option("MODEL", options->models,
                      "ONNX models; inputs come from test_data_set_0 beside them where that exists");
  command
      ->add_option("--suite", options->suite,
                   "measure every .onnx file below this folder instead, each round of either side in a process of "
                   "its own")
      ->type_name("FOLDER");
  command->add_option("--dim", options->dims, "the size of a symbolic dimension")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command->add_option("--against", options->against, "the peer")->check(CLI::IsMember(BenchPeer::names()));
  command->add_option("--threads", options->threads, "cores of the device, as in 1,2")
      ->delimiter(',')
      ->check(positive)
      ->capture_default_str();
  command->add_option("--repeat", options->repeat, "runs that are timed in a round")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "rounds")->check(positive)->capture_default_str();
  command->add_option("--warmup", options->warmup, "runs before them in a round")
      ->check(notNegative)
      ->capture_default_str();
  command->add_flag("--reference", options->reference, "measure the plain loops");
  command->add_flag("--no-libraries", options->noLibraries, "measure compiled kernels only");
  command->add_option("--peer-script", options->peerScript, "the script that runs the peer")->type_name("FILE");
  addOutputOption(*command, "--json", options->json, "where the results go as JSON");
  addCollectiveOptions(*command, *options);
  CLI::Option *predictions =
      command->add_flag("--predictions", options->predicts,
                        "compare what is predicted of models in several plans with what they take, instead; MODEL may "
                        "be NAME:NUMBER=VALUE,… of the zoo; default: a choice of it");
  command->add_flag("--train", options->trains, "predict steps of training")->needs(predictions);
  command->add_option("--plans", options->plans, "only these of the plans, as in single,data")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(predictions);
  addOutputOption(*command, "--write", options->markdown,
                  "where the table of --suite or --predictions goes as Markdown; of the two sections of the latter's "
                  "file, inference and training, the other one stays");
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

} // namespace cleave::tool
