// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the stages, times them, and tells the user's errors from the compiler's own.

#include "compiler/ModelCompiler.h"

#include "compiler/ExtraOutputs.h"
#include "compiler/Figures.h"
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
#include "passes/distribute/Pipeline.h"
#include "passes/emit/EmitPlan.h"
#include "passes/graph/Pipeline.h"
#include "passes/planner/PlaceOperators.h"
#include "passes/schedule/Pipeline.h"
#include "runtime/FileReplacement.h"
#include "runtime/HostTopology.h"
#include "runtime/Plan.h"
#include "runtime/drivers/cpu/HostFeatures.h"

#include <chrono>
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
  DistributeOptions options{!request.target.noCombine, request.target.keys};
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
  options.attention = !request.target.noFusedAttention;
  options.winograd = !request.target.noWinograd;
  options.threads = request.target.threads ? request.target.threads : runtime::hostTopology().usableCores();
  return runStage("codegen", [&](OpPassManager &manager) { buildCodegenPipeline(manager, options); });
}

std::string MissingMemory::text() const {
  return "the plan needs " + bytesText(bytes) + " on device \"" + device + "\", more than the limit of " +
         bytesText(limit);
}

Error ModelCompiler::checkMemory(const runtime::Plan &plan) {
  std::vector<double> needed = arenaBytes(plan), searched;
  if (result.report)
    searched = result.report->prediction.peakBytes;
  searched.resize(needed.size(), 0.0);
  search::SearchRequest allowed;
  allowed.memoryLimit = placing.search.memoryLimit;
  for (auto [device, bytes, expected] : llvm::zip_equal(plan->devices, needed, searched)) {
    DeviceSpec spec;
    spec.memoryLimit = device.memoryLimit;
    double limit = allowed.memoryOf(spec);
    if (bytes > limit && (!missing || bytes / limit > missing->bytes / missing->limit))
      missing = MissingMemory{device.name, bytes, limit, expected};
  }
  if (!missing)
    return Error::success();
  missing->transforms = llvm::any_of(plan->kernels, [](const runtime::Kernel &kernel) {
    const auto *library = std::get_if<runtime::LibraryKernel>(&kernel.body);
    return library && StringRef(library->operation).ends_with(".winograd");
  });
  return makeError(Status::Infeasible, missing->text());
}

/// With the machine (too little memory), else with the compiler.
Error ModelCompiler::emissionError(llvm::Error error) {
  auto status = Status::Internal;
  std::string message;
  std::vector<char> refused;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &problem) {
    if (problem.isA<PlanError>()) {
      status = static_cast<const PlanError &>(problem).getStatus();
      refused = static_cast<const PlanError &>(problem).getPlan();
    }
    message = problem.message();
  });
  if (status == Status::Infeasible)
    if (auto plan = runtime::Plan::fromBytes(std::as_bytes(std::span(refused))))
      if (Error lacks = checkMemory(*plan))
        return lacks;
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
    return emissionError(plan.takeError());
  result.plan = std::move(*plan);
  if (isDecision)
    return Error::success();
  auto opened = openPlan(result);
  if (!opened)
    return opened.error();
  if (Error error = checkMemory(*opened))
    return error;
  if (Error error = chooseLocalSteps(*settings))
    return error;
  auto times = simulateSteps();
  if (!times)
    return times.error();
  options.times = std::move(*times);
  plan = emitPlan(*module, options);
  if (!plan)
    return emissionError(plan.takeError());
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
