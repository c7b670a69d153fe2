// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What options mean for where operators run: the machine and its processors, the strategy, the search.

#include "compiler/ModelCompiler.h"

#include "compiler/PlanMachine.h"
#include "compiler/StageState.h"
#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "passes/codegen/ChooseProcessor.h"
#include "passes/cost/RoundedProducts.h"
#include "passes/planner/PlaceOperators.h"

#include "llvm/ADT/ScopeExit.h"

#include <cmath>

using namespace mlir;

namespace cleave {

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
  options.fusesAttention = !target.noFusedAttention && !target.noLibraries && !target.reference;
  options.winograd = !target.noWinograd && !target.noLibraries && !target.reference;
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

} // namespace cleave
