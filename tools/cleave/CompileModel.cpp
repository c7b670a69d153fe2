// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the stages, times them, and tells the user's errors from the compiler's own.

#include "tools/cleave/CompileModel.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "passes/codegen/Pipeline.h"
#include "passes/distribute/Pipeline.h"
#include "passes/emit/EmitPlan.h"
#include "passes/graph/Pipeline.h"
#include "passes/planner/PlaceOperators.h"
#include "passes/schedule/Pipeline.h"
#include "runtime/Plan.h"
#include "tools/cleave/ExtraOutputs.h"
#include "tools/cleave/PlanWeights.h"
#include "tools/cleave/Reproducer.h"

#include "mlir/Pass/PassManager.h"

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
          "how operators get their devices: single (all on the first); place (by --place, else the model's "
          "ctx_group, each group on the next device); data (the batch in parts); tensor (layers in parts, by "
          "columns and rows); alternate and split (for tests); default: place where there is something to go by")
      ->check(CLI::IsMember({"single", "place", "data", "tensor", "alternate", "split"}));
  command.add_option("--place", placementFile, "pins operators to devices and meshes, and splits them, by name (YAML)")
      ->type_name("FILE");
  command
      .add_option("--degrees", degrees,
                  "how many parts strategies data and tensor make: data=N, model=N or both; default: as many as there "
                  "are devices")
      ->type_name("AXIS=N,…");
  command.add_flag("--reference", reference, "plain loops for every operator by itself, without fusion and libraries");
  command.add_flag("--no-libraries", noLibraries, "compile every kernel; use none of a library");
  command.add_option("--compile-threads", threads, "threads that compile; 0: one a core")->capture_default_str();
}

const char *TargetOptions::findGiven(const CLI::App &command, std::initializer_list<const char *> others) {
  std::vector<const char *> names = {"--machine",   "--strategy",     "--place",          "--degrees",
                                     "--reference", "--no-libraries", "--compile-threads"};
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
  explicit ModelCompiler(const CompileRequest &request) : request(request) {
    result.context = createContext();
    printer.emplace(result.context.get());
  }

  Expected<CompiledModel> run() {
    Error (ModelCompiler::*stages[])() = {
        &ModelCompiler::import,   &ModelCompiler::simplify, &ModelCompiler::place, &ModelCompiler::distribute,
        &ModelCompiler::generate, &ModelCompiler::schedule, &ModelCompiler::emit};
    for (auto [index, stage] : llvm::enumerate(stages)) {
      StringRef name = index < std::size(irStages) ? irStages[index] : "emit";
      auto begin = std::chrono::steady_clock::now();
      if (Error error = (this->*stage)())
        return error;
      result.times.push_back(
          {name.str(), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
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
  Error distribute() {
    return runStage("distribute", [](OpPassManager &manager) { buildDistributePipeline(manager); });
  }
  Error generate();
  Error schedule() {
    return runStage("schedule", [](OpPassManager &manager) { buildSchedulePipeline(manager); });
  }
  Error emit();

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
  CompiledModel result;
  std::optional<DiagnosticPrinter> printer;
  OwningOpRef<ModuleOp> module;
  ImportReport importReport;
};

Error ModelCompiler::import() {
  std::string weightsFile = request.planFile.empty()
                                ? "model.weights"
                                : std::filesystem::path(request.planFile).filename().string() + ".weights";
  auto model = readModel(*result.context, request.model, request.inputs, weightsFile, importReport);
  if (!model)
    return model.error();
  module = std::move(model->module);
  result.imported = std::move(model->weights);
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
  return request.lastStage == "graph" ? Error::success() : checkSupported(*module, importReport);
}

Error ModelCompiler::place() {
  const TargetOptions &target = request.target;
  auto machine = parseMachine(target.machine);
  if (!machine)
    return fromLlvm(Status::Usage, machine.takeError());
  for (const std::string &warning : machine->warnings)
    printWarning(warning);
  result.machineNotes = machine->notes;
  PlaceOptions options;
  options.machine = std::move(*machine);
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
  result.strategy = !target.strategy.empty() ? target.strategy : options.placement ? "place" : "single";
  if (!target.placementFile.empty() && result.strategy != "place")
    return makeError(Status::Usage, "--place expects --strategy place, got ", result.strategy);
  if (result.strategy != "place")
    options.placement.reset();
  options.strategy = *findStrategy(result.strategy);
  auto degrees = parseDegrees(target.degrees);
  if (!degrees)
    return fromLlvm(Status::Usage, degrees.takeError());
  options.degrees = *degrees;
  bool byDegrees = options.strategy == PlaceStrategy::Data || options.strategy == PlaceStrategy::Tensor;
  if (!byDegrees && !target.degrees.empty())
    return makeError(Status::Usage, "--degrees expects --strategy data or tensor, got ", result.strategy);
  if (byDegrees)
    if (auto mesh = meshOfDegrees(options.degrees, axisOf(options.strategy), options.machine); !mesh)
      return fromLlvm(Status::Infeasible, mesh.takeError());
  return failed(placeOperators(*module, options)) ? alreadyPrinted(Status::Failure) : Error::success();
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
  return Error::success();
}

} // namespace

Expected<CompiledModel> compileModel(const CompileRequest &request) { return ModelCompiler(request).run(); }

Expected<runtime::Plan> openPlan(const CompiledModel &compiled) {
  return runtime::Plan::fromBytes(std::as_bytes(std::span(compiled.plan)));
}

} // namespace cleave::tool
