// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the stages, times them, and tells the user's errors from the compiler's own.

#include "tools/cleave/CompileModel.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "passes/codegen/Pipeline.h"
#include "passes/cost/Quantity.h"
#include "passes/distribute/Pipeline.h"
#include "passes/emit/EmitPlan.h"
#include "passes/graph/Passes.h"
#include "passes/graph/Pipeline.h"
#include "passes/planner/PlaceOperators.h"
#include "passes/planner/stages/Schedule.h"
#include "passes/schedule/Pipeline.h"
#include "passes/train/Dropout.h"
#include "passes/train/Evaluation.h"
#include "passes/train/Loss.h"
#include "passes/train/TrainingOperators.h"
#include "passes/train/TrainingStep.h"
#include "runtime/Plan.h"
#include "runtime/simulator/Simulator.h"
#include "tools/cleave/ExtraOutputs.h"
#include "tools/cleave/HostProfile.h"
#include "tools/cleave/PlanWeights.h"
#include "tools/cleave/Reproducer.h"
#include "tools/cleave/TextTable.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

using namespace mlir;

namespace cleave::tool {

void TargetOptions::addTo(CLI::App &command) {
  command
      .add_option(
          "--machine", machine,
          "the devices: host, host:N, host:NxC (N devices of C cores), null:N, a preset as in a100-80g:8x4 (four "
          "hosts of eight), a file")
      ->capture_default_str();
  command
      .add_option(
          "--strategy", strategy,
          "how operators get their devices: auto (the best that the search finds); single (all on the first); place "
          "(by --place, else the model's "
          "ctx_group, each group on the next device); data (the batch in parts); tensor (layers in parts, by "
          "columns and rows); pipeline (auto with a stage for each device); alternate and split (for tests); default: "
          "place where there is something to go by, else auto")
      ->check(CLI::IsMember({"auto", "single", "place", "data", "tensor", "pipeline", "alternate", "split"}));
  command.add_option("--place", placementFile, "pins operators to devices and meshes, and splits them, by name (YAML)")
      ->type_name("FILE");
  command
      .add_option("--degrees", degrees,
                  "how many parts are made: data=N, model=N; with the search also pipeline=N, sequence=N, expert=N; "
                  "default: as many as there are devices, or what the search chooses")
      ->type_name("AXIS=N,…");
  command.add_flag("--train", train,
                   "plan a training step: forward, backward, optimizer; without --loss only what is decided about it");
  command.add_option("--loss", loss,
                     "make a training step that runs: cross-entropy, mse, or the name of an output; then "
                     ",output=NAME ,labels=NAME ,classes=DIM");
  command.add_option("--batch", batch, "samples of a training step; default: the model's batch")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  command.add_option("--microbatches", microbatches, "into how many parts a training step divides its batch, or auto")
      ->capture_default_str();
  command.add_option("--schedule", schedule, "the order of microbatches in a pipeline")
      ->check(CLI::IsMember({"auto", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-auto"}))
      ->capture_default_str();
  command.add_option("--recompute", recompute, "which activations the backward pass computes again")
      ->check(CLI::IsMember({"auto", "none", "selective", "full"}))
      ->capture_default_str();
  command.add_option("--zero", zero, "what replicas share: 1 optimizer state, 2 gradients, 3 parameters, too")
      ->check(CLI::IsMember({"auto", "0", "1", "2", "3"}))
      ->capture_default_str();
  command.add_option("--dtype", elementType, "the arithmetic that costs are for")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  command.add_option("--optimizer", optimizer, "what changes parameters in training")
      ->check(CLI::IsMember({"sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw"}))
      ->capture_default_str();
  command.add_option("--optimizer-options", optimizerOptions,
                     "momentum, alpha, beta1, beta2, epsilon, weight-decay, as KEY=VALUE,…");
  command.add_option("--learning-rate", learningRate, "default: the optimizer's")->check(CLI::NonNegativeNumber);
  command.add_option("--lr-schedule", rateSchedule, "constant, step:PERIOD:GAMMA, cosine:TOTAL[:WARMUP], in steps")
      ->capture_default_str();
  command.add_option("--clip-norm", clipNorm, "scale gradients down to this norm of all together; 0: never")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option(
          "--batch-norm", batchNorm,
          "of what batch normalization takes its statistics in training: each device's part of a microbatch, the "
          "whole microbatch (synchronized), or no batch but the running ones")
      ->check(CLI::IsMember({"device", "synchronized", "running"}))
      ->capture_default_str();
  command.add_flag("--no-dropout", noDropout, "train without dropout");
  command.add_option("--seed", seed, "what dropout in training follows from")->capture_default_str();
  command.add_option("--memory", memory, "bytes of each device that a plan may use, as \"12 GiB\"");
  command.add_option("--solver", solver, "how splits inside of a stage are searched")
      ->check(CLI::IsMember({"elimination", "ilp", "exhaustive"}))
      ->capture_default_str();
  command.add_option("--search-seconds", timeBudget, "take the best plan after so many seconds; 0: search to the end")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_flag("--reference", reference, "plain loops for every operator by itself, without fusion and libraries");
  command.add_flag("--no-libraries", noLibraries, "compile every kernel; use none of a library");
  command.add_option("--compile-threads", threads, "threads that compile; 0: one a core")->capture_default_str();
}

const char *TargetOptions::findGiven(const CLI::App &command, std::initializer_list<const char *> others) {
  std::vector<const char *> names = {
      "--machine",        "--strategy",       "--place",        "--degrees",           "--reference", "--no-libraries",
      "--train",          "--batch",          "--microbatches", "--schedule",          "--recompute", "--zero",
      "--loss",           "--learning-rate",  "--lr-schedule",  "--optimizer-options", "--clip-norm", "--dtype",
      "--batch-norm",     "--no-dropout",     "--seed",         "--optimizer",         "--memory",    "--solver",
      "--search-seconds", "--compile-threads"};
  names.insert(names.end(), others);
  for (const char *name : names)
    if (command.count(name))
      return name;
  return nullptr;
}

double CompiledModel::totalSeconds() const {
  double total = 0;
  for (const StageTime &time : times)
    total += time.seconds;
  return total;
}

double CompiledModel::secondsOf(StringRef stage) const {
  for (const StageTime &time : times)
    if (time.stage == stage)
      return time.seconds;
  return 0;
}

namespace {

/// A step is written out microbatch by microbatch.
constexpr int64_t largestMicrobatches = 4096;

/// The model's own groups (ctx_group) on the machine's devices in turn, in the order in which they appear.
Placement groupsInOrder(ModuleOp module, size_t numDevices) {
  Placement placement;
  module.walk([&](Operation *op) {
    auto name = op->getAttrOfType<StringAttr>(dist::groupAttrName);
    if (!name || placement.find(name))
      return;
    PlacementGroup group;
    group.name = name.str();
    group.mesh = MeshSpec::ofDevice(static_cast<unsigned>(placement.groups.size() % numDevices));
    placement.groups.push_back(std::move(group));
  });
  return placement;
}

class ModelCompiler {
public:
  /// The search keeps below `searchedBytes` on each device, if that is given, else below the request's limit.
  explicit ModelCompiler(const CompileRequest &request, std::optional<double> searchedBytes = {})
      : request(request), searchedBytes(searchedBytes), model(request.model) {
    model.training = trains();
    result.context = createContext();
    printer.emplace(result.context.get());
  }

  Expected<CompiledModel> run() {
    Error (ModelCompiler::*stages[])() = {
        &ModelCompiler::import,     &ModelCompiler::simplify, &ModelCompiler::place,    &ModelCompiler::train,
        &ModelCompiler::distribute, &ModelCompiler::generate, &ModelCompiler::schedule, &ModelCompiler::emit};
    for (auto [index, stage] : llvm::enumerate(stages)) {
      StringRef name = index < std::size(irStages) ? irStages[index] : "emit";
      auto begin = std::chrono::steady_clock::now();
      if (Error error = (this->*stage)())
        return error;
      result.times.push_back(
          {name.str(), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
      // Decisions about a training step are a plan by themselves: nothing here runs them.
      if (name == "place" && request.target.train && !trains() && request.lastStage.empty()) {
        if (Error error = emit())
          return error;
        break;
      }
      if (name == request.lastStage) {
        llvm::raw_string_ostream stream(result.ir);
        module->print(stream, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/true));
        break;
      }
    }
    return std::move(result);
  }

private:
  Error import();
  Error simplify();
  Error place();
  Error addTrainedLoss();
  Error chooseMicrobatches(bool searches);
  Error resample(int64_t samples);
  Error followSearch();
  Error train();
  /// Whether the plan is to hold a training step that runs.
  bool trains() const { return request.target.train && !request.target.loss.empty(); }
  const char *findSearchOption() const;
  Expected<std::optional<int64_t>> readMicrobatches() const;
  Error readSearchRequest(PlaceOptions &options) const;
  Error distribute() {
    return runStage("distribute", [](OpPassManager &manager) { buildDistributePipeline(manager); });
  }
  Error generate();
  Error schedule() {
    return runStage("schedule", [](OpPassManager &manager) { buildSchedulePipeline(manager); });
  }
  Error emit();
  Error simulateStep();

  /// Runs passes that are to succeed on every module that got this far.
  Error runStage(StringRef stage, llvm::function_ref<void(OpPassManager &)> build) {
    PassManager manager(result.context.get(), ModuleOp::getOperationName());
    build(manager);
    if (succeeded(manager.run(*module)))
      return Error::success();
    reportInternalError(("stage " + stage + " failed").str());
    return alreadyPrinted(Status::Internal);
  }

  const CompileRequest &request;
  std::optional<double> searchedBytes;
  ModelOptions model;
  CompiledModel result;
  std::optional<DiagnosticPrinter> printer;
  OwningOpRef<ModuleOp> module;
  /// With a training step: the forward graph as it is to be evaluated.
  OwningOpRef<dfg::GraphOp> evaluation;
  TrainingOptions training;
  int64_t batch = 0;
  ImportReport importReport;
  Machine machine;
};

Error ModelCompiler::import() {
  std::string weightsFile = request.planFile.empty()
                                ? "model.weights"
                                : std::filesystem::path(request.planFile).filename().string() + ".weights";
  auto loaded = readModel(*result.context, model, request.inputs, weightsFile, importReport);
  if (!loaded)
    return loaded.error();
  module = std::move(loaded->module);
  result.imported = std::move(loaded->weights);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().enableDebugInfo());
  keepReproducer(std::move(text));
  return Error::success();
}

Error ModelCompiler::simplify() {
  if (Error error = runStage("graph", [](OpPassManager &manager) { buildGraphPipeline(manager); }))
    return error;
  if (Error error = addOutputs(*module, request.extraOutputs))
    return error;
  if (request.lastStage == "graph")
    return Error::success();
  if (Error error = checkSupported(*module, importReport))
    return error;
  return trains() ? addTrainedLoss() : Error::success();
}

Error ModelCompiler::place() {
  const TargetOptions &target = request.target;
  auto parsed = parseMachine(target.machine);
  if (!parsed)
    return fromLlvm(Status::Usage, parsed.takeError());
  machine = std::move(*parsed);
  for (const std::string &warning : machine.warnings)
    printWarning(warning);
  result.machineNotes = machine.notes;
  PlaceOptions options;
  options.machine = machine;
  if (target.placementFile.empty()) {
    Placement groups = groupsInOrder(*module, options.machine.devices.size());
    if (target.strategy == "place" && groups.groups.empty())
      return makeError(Status::Usage, "--strategy place expects --place FILE, or a model with ctx_group; got neither");
    if (!groups.groups.empty())
      options.placement = std::move(groups);
  } else {
    auto placement = readPlacementFile(target.placementFile);
    if (!placement)
      return fromLlvm(Status::Failure, placement.takeError());
    options.placement = std::move(*placement);
  }
  result.strategy = !target.strategy.empty() ? target.strategy : options.placement ? "place" : "auto";
  bool constrains = result.strategy == "auto" && !target.placementFile.empty();
  if (!target.placementFile.empty() && result.strategy != "place" && !constrains)
    return makeError(Status::Usage, "--place expects --strategy place or auto, got ", result.strategy);
  if (constrains && (target.train || !target.degrees.empty()))
    return makeError(Status::Usage, "--place with --strategy auto fixes the devices: --train and --degrees cannot be "
                                    "given with it");
  if (result.strategy != "place" && !constrains)
    options.placement.reset();
  options.strategy = result.strategy == "pipeline" ? PlaceStrategy::Auto : *findStrategy(result.strategy);
  bool searches = options.strategy == PlaceStrategy::Auto;
  if (const char *given = findSearchOption(); given && !searches)
    return makeError(Status::Usage, given, " expects --strategy auto, got ", result.strategy);
  if (trains())
    if (Error error = chooseMicrobatches(searches))
      return error;
  auto degrees = parseDegrees(target.degrees);
  if (!degrees)
    return fromLlvm(Status::Usage, degrees.takeError());
  options.degrees = *degrees;
  bool byDegrees = options.strategy == PlaceStrategy::Data || options.strategy == PlaceStrategy::Tensor;
  if (!byDegrees && !searches && !target.degrees.empty())
    return makeError(Status::Usage, "--degrees expects --strategy auto, data or tensor, got ", result.strategy);
  if (byDegrees && degrees->needSearch())
    return makeError(Status::Usage, "--degrees pipeline, sequence and expert expect --strategy auto, got ",
                     result.strategy);
  if (searches) {
    if (Error error = readSearchRequest(options))
      return error;
    options.degrees = {};
  }
  if (byDegrees)
    if (auto mesh = meshOfDegrees(options.degrees, axisOf(options.strategy), options.machine); !mesh)
      return fromLlvm(Status::Infeasible, mesh.takeError());
  if (result.strategy == "pipeline") {
    options.search.degrees.data = options.search.degrees.data.value_or(1);
    options.search.degrees.pipeline =
        options.search.degrees.pipeline.value_or(static_cast<int64_t>(options.machine.devices.size()));
  }
  bool shown = llvm::sys::Process::StandardErrIsDisplayed();
  if (shown)
    options.search.progress = [](const std::string &line) { llvm::errs() << "\r\033[Ksearch: best so far " << line; };
  llvm::scope_exit clear([shown] {
    if (shown)
      llvm::errs() << "\r\033[K";
  });
  PlaceFailure failure = PlaceFailure::Diagnosed;
  if (succeeded(placeOperators(*module, options, &result.report, &failure)))
    return trains() && searches ? followSearch() : Error::success();
  switch (failure) {
  case PlaceFailure::Usage:
    return alreadyPrinted(Status::Usage);
  case PlaceFailure::Infeasible:
    return alreadyPrinted(Status::Infeasible);
  case PlaceFailure::Diagnosed:
    break;
  }
  return alreadyPrinted(Status::Failure);
}

//===-- training ----------------------------------------------------------------------------------------------===//

/// The size of dimension 0 of the graph's first input; nothing where it has none.
std::optional<int64_t> samplesOf(dfg::GraphOp graph) {
  auto type =
      graph.getArgumentTypes().empty() ? RankedTensorType() : cast<RankedTensorType>(graph.getArgumentTypes().front());
  return type && type.getRank() > 0 ? std::optional(type.getDimSize(0)) : std::nullopt;
}

dfg::GraphOp graphOf(ModuleOp module) { return cast<dfg::GraphOp>(findGraph(module)); }

Error ModelCompiler::addTrainedLoss() {
  const TargetOptions &target = request.target;
  auto loss = parseLoss(target.loss);
  if (!loss)
    return fromLlvm(Status::Usage, loss.takeError());
  auto optimizer = parseOptimizer(target.optimizer, target.optimizerOptions);
  if (!optimizer)
    return fromLlvm(Status::Usage, optimizer.takeError());
  auto rate =
      parseSchedule(target.rateSchedule, target.learningRate ? target.learningRate : optimizer->learningRate.rate);
  if (!rate)
    return fromLlvm(Status::Usage, rate.takeError());
  training.optimizer = *optimizer;
  training.optimizer.learningRate = *rate;
  training.clipNorm = target.clipNorm;
  if (!samplesOf(graphOf(*module)))
    return makeError(Status::Failure,
                     "training expects a model whose inputs have their samples in dimension 0, got one "
                     "without such an input");
  if (failed(addLoss(graphOf(*module), *loss)))
    return alreadyPrinted(Status::Failure);
  evaluation = graphOf(*module).clone();
  evaluation->setSymName(evaluateGraphName);
  removeDropout(*evaluation);
  return Error::success();
}

/// Imports the model again, with so many samples.
Error ModelCompiler::resample(int64_t samples) {
  if (samplesOf(graphOf(*module)) == samples)
    return Error::success();
  model.samples = samples;
  if (Error error = import())
    return error;
  return simplify();
}

/// The microbatches of the step, unless the search chooses them.
Error ModelCompiler::chooseMicrobatches(bool searches) {
  auto given = readMicrobatches();
  if (!given)
    return given.error();
  if (request.target.schedule != "auto")
    training.schedule = *stages::findSchedule(request.target.schedule);
  if (request.target.recompute != "auto")
    training.kept = *findKept(request.target.recompute);
  if (request.target.zero != "auto")
    training.zero = static_cast<unsigned>(request.target.zero[0] - '0');
  batch = request.target.batch ? request.target.batch : *samplesOf(graphOf(*module));
  if (searches && !*given)
    return Error::success();
  int64_t microbatches = given->value_or(1);
  if (batch % microbatches != 0)
    return makeError(Status::Usage, "--microbatches expects a divisor of the batch of ", batch, " samples, got ",
                     microbatches);
  training.microbatches = static_cast<unsigned>(microbatches);
  return resample(batch / microbatches);
}

/// Gives a graph the places of one of the same model with another number of samples.
Error copyPlaces(ModuleOp from, ModuleOp to) {
  auto next = graphOf(to).getBody().front().begin();
  for (Operation &op : graphOf(from).getBody().front()) {
    if (next == graphOf(to).getBody().front().end() || next->getName() != op.getName())
      return makeError(Status::Unsupported, "the model has other operators with the microbatches that the search "
                                            "found best; fix --microbatches");
    if (dist::PlaceAttr place = dist::getPlace(&op))
      next->setAttr(dist::placeAttrName, place);
    ++next;
  }
  for (auto mesh : from.getOps<dist::MeshOp>())
    OpBuilder::atBlockBegin(to.getBody()).clone(*mesh);
  dist::setDevices(to, dist::getDevices(from));
  return Error::success();
}

/// Takes over what the search decided about the step.
Error ModelCompiler::followSearch() {
  const runtime::Prediction &found = result.report->prediction;
  training.microbatches = found.microbatches;
  if (auto schedule = stages::findSchedule(found.schedule))
    training.schedule = *schedule;
  for (auto [stage, mesh] : llvm::zip(found.stages, result.report->stageMeshes))
    training.byMesh[mesh] = {*findKept(stage.recompute), stage.zero};
  if (samplesOf(graphOf(*module)) == batch / training.microbatches)
    return Error::success();
  OwningOpRef<ModuleOp> placed = module->clone();
  if (Error error = resample(batch / training.microbatches))
    return error;
  return copyPlaces(*placed, *module);
}

Error ModelCompiler::train() {
  if (!trains())
    return Error::success();
  const TargetOptions &target = request.target;
  dfg::GraphOp forward = graphOf(*module);
  module->push_back(evaluation.release());
  auto graphs = llvm::to_vector(module->getOps<dfg::GraphOp>());
  dfg::GraphOp evaluated = graphs.back();
  evaluated->setAttr(dfg::samplesAttrName, Builder(module->getContext()).getI64IntegerAttr(*samplesOf(evaluated)));
  if (failed(placeEvaluation(evaluated, forward)))
    return alreadyPrinted(Status::Failure);
  if (failed(replaceTrainingOperators(forward, {*findStatistics(target.batchNorm), !target.noDropout, target.seed})))
    return alreadyPrinted(Status::Unsupported);
  auto step = buildTrainingStep(forward, training);
  if (failed(step))
    return alreadyPrinted(Status::Unsupported);
  shareParameters(evaluated, *step);
  // What has a place is not folded: new operators would have none.
  return runStage("train", [](OpPassManager &manager) {
    manager.nest<dfg::GraphOp>().addPass(createCSEPass());
    manager.addPass(createRemoveUnusedParametersPass());
  });
}

/// The first option of the search that was given; null where none was.
const char *ModelCompiler::findSearchOption() const {
  const TargetOptions &target = request.target, defaults;
  bool decides = !trains();
  const std::pair<const char *, bool> given[] = {
      {"--train", decides && target.train},
      {"--batch", decides && target.batch != 0},
      {"--microbatches", decides && target.microbatches != defaults.microbatches},
      {"--schedule", decides && target.schedule != defaults.schedule},
      {"--recompute", decides && target.recompute != defaults.recompute},
      {"--zero", decides && target.zero != defaults.zero},
      {"--dtype", target.elementType != defaults.elementType},
      {"--memory", !target.memory.empty()},
      {"--solver", target.solver != defaults.solver}};
  for (auto [name, isGiven] : given)
    if (isGiven)
      return name;
  return nullptr;
}

/// Nothing: the search chooses.
Expected<std::optional<int64_t>> ModelCompiler::readMicrobatches() const {
  const std::string &text = request.target.microbatches;
  if (text == "auto")
    return std::optional<int64_t>();
  int64_t number = 0;
  if (!llvm::to_integer(text, number, 10) || number < 1 || number > largestMicrobatches)
    return makeError(Status::Usage, "--microbatches expects auto or a number from 1 to ", largestMicrobatches,
                     ", got \"", text, "\"");
  return std::optional(number);
}

Error ModelCompiler::readSearchRequest(PlaceOptions &options) const {
  const TargetOptions &target = request.target;
  search::SearchRequest &search = options.search;
  search.training = target.train;
  search.batch = trains() ? batch : target.batch;
  search.degrees = options.degrees;
  search.elementType = target.elementType;
  search.optimizer = target.optimizer;
  search.timeBudget = target.timeBudget;
  search.solver.method = *solver::findMethod(target.solver);
  for (auto [flag, value] : {std::pair("--batch", target.batch != 0),
                             {"--microbatches", target.microbatches != "auto"},
                             {"--schedule", target.schedule != "auto"},
                             {"--recompute", target.recompute != "auto"},
                             {"--zero", target.zero != "auto"}})
    if (value && !target.train)
      return makeError(Status::Usage, flag, " expects --train");
  if (target.elementType != "f32" && !target.train)
    return makeError(Status::Usage, "--dtype ", target.elementType,
                     " expects --train: inference runs in the model's "
                     "own element types");
  auto microbatches = readMicrobatches();
  if (!microbatches)
    return microbatches.error();
  search.microbatches = *microbatches;
  if (target.schedule != "auto")
    search.schedule = stages::findSchedule(target.schedule);
  if (target.recompute != "auto")
    search.recompute = search::findRecompute(target.recompute);
  if (target.zero != "auto")
    search.zero = static_cast<unsigned>(target.zero[0] - '0');
  if (!target.memory.empty()) {
    auto bytes = parseQuantity(target.memory, sizeUnits, "--memory");
    if (!bytes)
      return fromLlvm(Status::Usage, bytes.takeError());
    search.memoryLimit = searchedBytes.value_or(*bytes);
  }
  return Error::success();
}

Error ModelCompiler::generate() {
  CodegenOptions options;
  options.reference = request.target.reference;
  options.libraries = !request.target.noLibraries;
  options.threads = request.target.threads ? request.target.threads : std::max(1u, std::thread::hardware_concurrency());
  return runStage("codegen", [&](OpPassManager &manager) { buildCodegenPipeline(manager, options); });
}

/// What emission found wrong: with the machine (too little memory), else with the compiler.
Error emissionError(llvm::Error error) {
  auto status = Status::Internal;
  std::string message;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &problem) {
    if (problem.isA<PlanError>())
      status = static_cast<const PlanError &>(problem).getStatus();
    message = problem.message();
  });
  // A plan that its own verifier rejects is the compiler's fault, not the model's.
  if (status != Status::Internal && status != Status::Rejected)
    return Error(status, message);
  reportInternalError(message);
  return alreadyPrinted(Status::Internal);
}

Error ModelCompiler::emit() {
  std::filesystem::path planFile = request.planFile, modelFile = request.model.model;
  EmitOptions options;
  options.strategy = result.strategy;
  options.model = modelFile.string();
  options.report = result.report ? &*result.report : nullptr;
  if (!request.planFile.empty()) {
    std::error_code code;
    auto folder = planFile.parent_path().empty() ? std::filesystem::path(".") : planFile.parent_path();
    auto relative = std::filesystem::proximate(modelFile, folder, code);
    if (!code)
      options.model = relative.string();
    result.weights = anchorParameters(*module, result.imported, modelFile.parent_path().string(), folder.string(),
                                      planFile.filename().string() + ".weights");
  }
  auto plan = emitPlan(*module, options);
  if (!plan)
    return emissionError(plan.takeError());
  result.plan = std::move(*plan);
  if (!result.report || (request.target.train && !trains()))
    return Error::success();
  if (Error error = simulateStep())
    return error;
  plan = emitPlan(*module, options);
  if (!plan)
    return emissionError(plan.takeError());
  result.plan = std::move(*plan);
  return Error::success();
}

/// Adds to the report what the simulator says of the programs: their time, and the memory that they take.
Error ModelCompiler::simulateStep() {
  auto plan = openPlan(result);
  if (!plan)
    return plan.error();
  const runtime::Entry &entry = (*plan)->entries.front();
  runtime::Profile profile = readHostProfile();
  auto simulated = runtime::simulate(**plan, entry, *costOf(machine, *plan, entry, profile));
  if (!simulated)
    return simulated.error();
  runtime::Prediction &prediction = result.report->prediction;
  prediction.simulatedSeconds = simulated->stepSeconds();
  prediction.peakBytes.assign((*plan)->devices.size(), 0.0);
  for (const runtime::Program &program : entry.programs)
    for (uint32_t device : (*plan)->meshes[program.mesh].devices)
      prediction.peakBytes[device] += static_cast<double>(program.arenaBytes);
  return Error::success();
}

} // namespace

/// The bytes of the fullest device's arenas; entries take turns on them.
static double fullestArena(const runtime::Plan &plan) {
  double most = 0;
  for (const runtime::Entry &entry : plan->entries) {
    std::vector<double> bytes(plan->devices.size());
    for (const runtime::Program &program : entry.programs)
      for (uint32_t device : plan->meshes[program.mesh].devices)
        most = std::max(most, bytes[device] += static_cast<double>(program.arenaBytes));
  }
  return most;
}

Expected<CompiledModel> compileModel(const CompileRequest &request) {
  auto compiled = ModelCompiler(request).run();
  if (!compiled || compiled->plan.empty() || request.target.memory.empty())
    return compiled;
  auto limit = parseQuantity(request.target.memory, sizeUnits, "--memory");
  if (!limit)
    return fromLlvm(Status::Usage, limit.takeError());
  // The search's own account of memory leaves out where tensors lie and what kernels need: it gets so much less.
  static constexpr unsigned mostSearches = 4;
  double searched = *limit;
  for (unsigned searches = 1;; ++searches) {
    auto plan = openPlan(*compiled);
    if (!plan)
      return plan.error();
    double bytes = fullestArena(*plan);
    if (bytes <= *limit)
      return compiled;
    searched -= bytes - *limit;
    std::string what =
        "the plan needs " + bytesText(bytes) + " on its fullest device, more than the limit of " + bytesText(*limit);
    if (searches == mostSearches || searched <= 0)
      return makeError(Status::Infeasible, what, "; take more devices, a larger --memory or a smaller --batch");
    printNote(what + "; searching for one of " + bytesText(searched));
    compiled = ModelCompiler(request, searched).run();
    if (!compiled)
      return compiled;
  }
}

Expected<runtime::Plan> openPlan(const CompiledModel &compiled) {
  return runtime::Plan::fromBytes(std::as_bytes(std::span(compiled.plan)));
}

} // namespace cleave::tool
