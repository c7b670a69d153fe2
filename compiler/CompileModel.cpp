// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the stages, times them, and tells the user's errors from the compiler's own.

#include "compiler/ModelCompiler.h"

#include "compiler/ExtraOutputs.h"
#include "compiler/PlanMachine.h"
#include "compiler/PlanSettings.h"
#include "compiler/PlanWeights.h"
#include "compiler/StageState.h"
#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Replicas.h"
#include "dialects/plan/Plan.h"
#include "passes/codegen/ChooseProcessor.h"
#include "passes/codegen/Pipeline.h"
#include "passes/cost/ModuleMachine.h"
#include "passes/cost/Quantity.h"
#include "passes/cost/RoundedProducts.h"
#include "passes/distribute/Pipeline.h"
#include "passes/emit/EmitPlan.h"
#include "passes/graph/Pipeline.h"
#include "passes/import/SamplePositions.h"
#include "passes/pipeline/Schedule.h"
#include "passes/planner/PlaceOperators.h"
#include "passes/schedule/Pipeline.h"
#include "runtime/FileReplacement.h"
#include "runtime/HostTopology.h"
#include "runtime/Plan.h"
#include "runtime/drivers/cpu/HostFeatures.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <ostream>

using namespace mlir;

namespace cleave {

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

} // namespace

Expected<CompiledModel> ModelCompiler::run() {
  if (Error error = checkTrainingOptions())
    return error;
  if (Error error = readBatch())
    return error;
  if (Error error = readBuckets())
    return error;
  if (Error error = readReplicas())
    return error;
  Error (ModelCompiler::*stages[])() = {&ModelCompiler::import,   &ModelCompiler::simplify,   &ModelCompiler::place,
                                        &ModelCompiler::train,    &ModelCompiler::distribute, &ModelCompiler::generate,
                                        &ModelCompiler::schedule, &ModelCompiler::emit};
  for (auto [index, stage] : llvm::enumerate(stages)) {
    StringRef name = index < std::size(irStages) ? irStages[index] : "emit";
    auto begin = std::chrono::steady_clock::now();
    if (Error error = (this->*stage)())
      return error;
    result.times.push_back(
        {name.str(), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
    // Decisions about a training step are a plan by themselves: nothing here runs them.
    if (name == "place" && request.target.train && !trains() && request.lastStage.empty()) {
      if (!result.report)
        return makeError(Status::Usage, "--train expects a model with operators, got one without any to decide about");
      if (Error error = train())
        return error;
      if (Error error = emit())
        return error;
      break;
    }
    if (name == request.lastStage) {
      // With all locations, each at its operation: it is for people, too.
      result.ir = dump(name, /*localLocations=*/true);
      break;
    }
  }
  return std::move(result);
}

Error ModelCompiler::runStage(StringRef stage, llvm::function_ref<void(OpPassManager &)> build) {
  PassManager manager(context, ModuleOp::getOperationName());
  build(manager);
  if (succeeded(manager.run(*module)))
    return Error::success();
  messages.internalError(("stage " + stage + " failed").str());
  return alreadySaid(Status::Internal);
}

Error ModelCompiler::distribute() {
  DistributeOptions options{!request.target.noCombine};
  return runStage("distribute", [&](OpPassManager &manager) { buildDistributePipeline(manager, options); });
}

Error ModelCompiler::schedule() {
  return runStage("schedule", [](OpPassManager &manager) { buildSchedulePipeline(manager); });
}

Error ModelCompiler::import() {
  std::string weightsFile = request.planFile.empty()
                                ? "model.weights"
                                : std::filesystem::path(request.planFile).filename().string() + ".weights";
  auto loaded = readModel(*context, model, request.inputs, weightsFile, importReport);
  if (!loaded) {
    if (buckets && !buckets->areBatches() && loaded.error().status() == Status::Usage)
      messages.note("--buckets gives dimension \"" + buckets->dim + "\" its sizes");
    if (importReport.lacksSamples)
      messages.note("--batch N gives the model's samples, in dimension 0 of its first input, their number");
    return loaded.error();
  }
  if (Error error = checkDims())
    return error;
  module = std::move(loaded->module);
  result.imported = std::move(loaded->weights);
  setSettings(*module, settingsOf(request.model, TargetOptions()));
  messages.reproducer(dump("import", /*localLocations=*/false));
  return Error::success();
}

Error ModelCompiler::simplify() {
  GraphOptions options;
  options.expertCapacity = request.target.expertCapacity;
  if (options.expertCapacity > 0 && graphOf(*module).getBody().getOps<dfg::GatherDotOp>().empty())
    return makeError(Status::Usage, "--expert-capacity expects a model with mixtures of experts, nodes MoE or QMoE of ",
                     "com.microsoft; got one without");
  if (Error error = runStage("graph", [&](OpPassManager &manager) { buildGraphPipeline(manager, options); }))
    return error;
  if (Error error = addOutputs(*module, request.extraOutputs))
    return error;
  if (request.lastStage == "graph")
    return Error::success();
  if (Error error = checkSupported(*module, importReport))
    return error;
  return checkBatch();
}

Error ModelCompiler::placeBorrowed() {
  if (Error error = readBorrowed())
    return error;
  return place();
}

Error ModelCompiler::trainBorrowed() {
  if (Error error = readBorrowed())
    return error;
  if (auto said = dist::getReplicas(*module))
    replicas = said->count;
  auto report = getReport(*module);
  if (failed(report))
    return alreadySaid(Status::Rejected);
  result.report = std::move(*report);
  return train();
}

Expected<CompiledModel> ModelCompiler::emitBorrowed(StringRef folder) {
  std::string planFolder = std::filesystem::path(request.planFile).parent_path().string();
  result.imported = WeightsStore(std::filesystem::path(request.planFile).filename().string() + ".weights");
  if (Error error = mapParameters(*module, folder, planFolder, result.imported))
    return error;
  if (Error error = emit())
    return error;
  return std::move(result);
}

/// What the options say of a module that somebody has imported, which is of one size.
Error ModelCompiler::readBorrowed() {
  const TargetOptions &target = request.target;
  if (Error error = checkTrainingOptions())
    return error;
  if (target.buckets.empty() && target.batches.empty() && target.maxBatch == 0)
    return readReplicas();
  return makeError(Status::Unsupported, "entries of several sizes are imported by themselves; go on from a dump after "
                                        "train");
}

/// Who asks for TF32 expects it: where nothing can round, it is an error and not silence.
Error ModelCompiler::checkRounding() const {
  const TargetOptions &target = request.target;
  if (!target.tf32)
    return Error::success();
  if (!canRoundProducts(machine))
    return makeError(Status::Usage, "--tf32 expects devices that are GPUs, as those of --machine h100:1; got ",
                     machine.name);
  if (target.reference || target.noLibraries)
    return makeError(Status::Usage, "--tf32 is for kernels of libraries; got ",
                     target.reference ? "--reference" : "--no-libraries");
  return Error::success();
}

/// `--cpu`, else CLEAVE_CPU where the machine does not say what its processors are.
Error ModelCompiler::chooseChips() {
  const char *variable = std::getenv("CLEAVE_CPU");
  bool isGiven = !request.target.cpu.empty();
  std::string name = isGiven ? request.target.cpu : variable ? variable : "";
  if (name.empty())
    return Error::success();
  if (!isProcessorName(name))
    return makeError(Status::Usage, isGiven ? "--cpu" : "CLEAVE_CPU",
                     " expects native or a processor of x86-64 as LLVM names it, as x86-64-v3; got \"", name, "\"");
  bool any = false;
  for (DeviceSpec &device : machine.devices) {
    if (!isProcessor(device.driver))
      continue;
    any = true;
    if (isGiven || device.chip.empty())
      device.chip = name;
  }
  if (isGiven && !any)
    return makeError(Status::Usage, "--cpu expects devices that are processors, as those of --machine host:2; got ",
                     machine.name);
  return Error::success();
}

/// Whether libraries read parameters in bfloat16: those of GPUs do, oneDNN on processors that have the instructions.
Expected<bool> ModelCompiler::keepsRoundedParameters() const {
  std::vector<llvm::StringRef> chips;
  for (const DeviceSpec &device : machine.devices)
    if (isProcessor(device.driver))
      chips.push_back(device.chip);
  if (chips.empty())
    return true;
  auto processor = commonTarget(chips);
  if (!processor)
    return fromLlvm(Status::Usage, processor.takeError());
  return !request.target.reference && !request.target.noLibraries && multipliesBrainFloats(*processor);
}

/// What to say where float32 leaves most of a machine unused; empty where it does not.
static std::string narrowHint(const Machine &machine) {
  constexpr double worthSaying = 4;
  for (const auto &[name, kind] : machine.kinds) {
    auto f32 = kind.peak.find("f32"), bf16 = kind.peak.find("bf16");
    if (f32 != kind.peak.end() && bf16 != kind.peak.end() && bf16->second >= worthSaying * f32->second)
      return "products are in f32, which device kind \"" + name + "\" multiplies at " +
             std::to_string(static_cast<int>(std::lround(100 * f32->second / bf16->second))) +
             " % of its rate in bfloat16; --dtype bf16 takes that";
  }
  return "";
}

/// What to say where a kind has a rate that only GPUs have, but no GPU's chip; empty where none has.
static std::string kernelHint(const Machine &machine) {
  for (const auto &[name, kind] : machine.kinds)
    if (kind.driver == "null" && kind.chip.empty() && kind.peak.count("tf32"))
      return "device kind \"" + name +
             "\" gets the kernels of a processor, which are more and slower than a GPU's; if " +
             "it is one, say so in the machine file, as in \"chip: sm_90\"";
  return "";
}

Error ModelCompiler::place() {
  const TargetOptions &target = request.target;
  if (Error error = addTrainedLoss())
    return error;
  auto parsed = readMachine(target.machine);
  if (!parsed)
    return parsed.error();
  machine = std::move(*parsed);
  for (const std::string &warning : machine.warnings)
    messages.warning(warning);
  result.machineNotes = machine.notes;
  if (std::string hint = narrowHint(machine); target.elementType == "f32" && !target.tf32 && !hint.empty())
    result.machineNotes.push_back(hint);
  if (std::string hint = kernelHint(machine); !onlyPlans() && !hint.empty())
    result.machineNotes.push_back(hint);
  if (target.train && onlyPlans() && target.elementType != "f32")
    result.machineNotes.push_back("planned as for software that keeps parameters and gradients in " +
                                  target.elementType + "; a step that Cleave runs, with --loss, keeps them in f32, " +
                                  "and takes longer to join gradients");
  if (!target.executor.empty()) {
    auto executor = findExecutor(target.executor, "--executor");
    if (!executor)
      return fromLlvm(Status::Usage, executor.takeError());
    machine.executor = *executor;
  }
  // What was assumed is told wherever the machine is.
  if (machine.executor != Executor())
    machine.name += " with " + machine.executor.name;
  if (Error error = chooseChips())
    return error;
  if (Error error = checkRounding())
    return error;
  if (Error error = takeFirstReplica())
    return error;
  PlaceOptions options;
  options.machine = machine;
  options.roundsProducts = target.tf32;
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
  if (!byDegrees && (!degrees->dataShares.empty() || !degrees->modelShares.empty()))
    return makeError(Status::Usage, "--degrees with shares expects --strategy data or tensor, got ", result.strategy,
                     "; the search finds its own");
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
  options.search.progress = [this](const std::string &line) { messages.progress(line); };
  llvm::scope_exit clear([this] { messages.endProgress(); });
  options.decision = request.decision;
  placing = options;
  PlaceFailure failure = PlaceFailure::Diagnosed;
  if (succeeded(placeOperators(*module, options, &result.report, &failure))) {
    if (trains() && searches)
      if (Error error = followSearch())
        return error;
    showEverything();
    setStrategy(*module, result.strategy);
    if (result.report)
      setReport(*module, *result.report);
    return Error::success();
  }
  switch (failure) {
  case PlaceFailure::Usage:
    return alreadySaid(Status::Usage);
  case PlaceFailure::Infeasible:
    return alreadySaid(Status::Infeasible);
  case PlaceFailure::Diagnosed:
    break;
  }
  return alreadySaid(Status::Failure);
}

Error ModelCompiler::generate() {
  bool asksLibraries = !request.target.reference && !request.target.noLibraries;
  if (llvm::Error error = chooseProcessor(*module, asksLibraries))
    return fromLlvm(Status::Usage, std::move(error));
  if (auto processor = plan::getProcessor(*module)) {
    std::string lacking =
        runtime::missingFeatures({processor->features.begin(), processor->features.end()}, runtime::hostFeatures());
    if (!lacking.empty())
      result.machineNotes.push_back("the plan is for \"" + processor->name.str() +
                                    "\" and does not run here, for lack of " + lacking +
                                    (asksLibraries ? "; libraries choose layouts as on this machine" : ""));
  }
  CodegenOptions options;
  options.reference = request.target.reference;
  options.libraries = !request.target.noLibraries;
  options.tf32 = request.target.tf32;
  options.threads = request.target.threads ? request.target.threads : runtime::hostTopology().usableCores();
  return runStage("codegen", [&](OpPassManager &manager) { buildCodegenPipeline(manager, options); });
}

/// What emission found wrong: with the machine (too little memory), else with the compiler.
static Error emissionError(llvm::Error error, Messages &messages) {
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
  messages.internalError(message);
  return alreadySaid(Status::Internal);
}

Error ModelCompiler::emit() {
  std::filesystem::path planFile = request.planFile, modelFile = request.model.model;
  machine = moduleMachine(*module);
  EmitOptions options;
  options.strategy = getStrategy(*module);
  options.model = modelFile.string();
  auto settings = getSettings(*module);
  if (!settings)
    return settings.error();
  options.settings = *settings;
  // Of a step that was only decided about there is nothing to run.
  bool isDecision = llvm::is_contained(*settings, runtime::Setting{"train", "true"});
  auto report = getReport(*module);
  if (failed(report))
    return alreadySaid(Status::Rejected);
  result.report = std::move(*report);
  if (result.report)
    result.report->prediction.machineFile = machineFileOf(machine);
  options.report = result.report ? &*result.report : nullptr;
  if (!request.planFile.empty()) {
    std::error_code code;
    auto folder = planFile.parent_path().empty() ? std::filesystem::path(".") : planFile.parent_path();
    auto relative = std::filesystem::proximate(modelFile, folder, code);
    if (!code)
      options.model = relative.string();
    if (!isDecision)
      result.weights = anchorParameters(*module, result.imported, modelFile.parent_path().string(), folder.string(),
                                        planFile.filename().string() + ".weights", &options.checksums);
  }
  auto plan = emitPlan(*module, options);
  if (!plan)
    return emissionError(plan.takeError(), messages);
  result.plan = std::move(*plan);
  if (isDecision)
    return Error::success();
  if (Error error = chooseLocalSteps(*settings))
    return error;
  auto times = simulateSteps();
  if (!times)
    return times.error();
  options.times = std::move(*times);
  plan = emitPlan(*module, options);
  if (!plan)
    return emissionError(plan.takeError(), messages);
  result.plan = std::move(*plan);
  return Error::success();
}

Error writePlan(const CompiledModel &compiled, const std::string &path) {
  if (!compiled.weights.isEmpty())
    if (llvm::Error error = compiled.weights.write(path + ".weights"))
      return fromLlvm(Status::Failure, std::move(error));
  return runtime::replaceTextFile(path, [&](std::ostream &out) {
    out.write(compiled.plan.data(), static_cast<std::streamsize>(compiled.plan.size()));
  });
}

/// What the simulator says of the programs, whose time and memory the search's report takes over.
Expected<std::vector<EntryTimes>> ModelCompiler::simulateSteps() {
  auto plan = openPlan(result);
  if (!plan)
    return plan.error();
  auto step = getStep(*module);
  if (!step)
    return step.error();
  auto times = timeEntries(*plan, machine, messages);
  if (!times)
    return times.error();
  for (auto [entry, made] : llvm::zip_equal((*plan)->entries, *times)) {
    if (!made.prediction.training)
      continue;
    made.prediction.microbatches = step->microbatches;
    if (step->microbatches > 1 && entry.programs.size() > 1)
      made.prediction.schedule = step->schedule;
  }
  if (result.report) {
    const runtime::Prediction &first = times->front().prediction;
    result.report->prediction.simulatedSeconds = first.simulatedSeconds;
    result.report->prediction.peakBytes = first.peakBytes;
  }
  return times;
}

} // namespace cleave
