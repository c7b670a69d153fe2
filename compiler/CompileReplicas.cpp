// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --sync adds to compilation: the plan is made for one replica of the training step, on its part of the machine,
// and says on which devices the others run it.

#include "compiler/ModelCompiler.h"

#include "compiler/Figures.h"
#include "compiler/HostProfile.h"
#include "compiler/ReplicaTimes.h"
#include "dialects/dist/Replicas.h"
#include "passes/cost/ModuleMachine.h"
#include "passes/train/KeeperShards.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace cleave {

/// Before the names of the devices that --keeper takes.
static constexpr StringLiteral devicesPrefix = "devices=";

Error ModelCompiler::readReplicas() {
  const TargetOptions &target = request.target;
  if (target.sync.empty()) {
    if (target.replicas != 0 || target.keeper != TargetOptions().keeper)
      return makeError(Status::Usage, target.replicas != 0 ? "--replicas" : "--keeper",
                       " expects --sync, as in --sync ssp:3");
    return Error::success();
  }
  if (target.keeper != "first" && target.keeper != "all" && !StringRef(target.keeper).starts_with(devicesPrefix))
    return makeError(Status::Usage, "--keeper expects first, all or devices=NAME,NAME,..., got \"", target.keeper,
                     "\"");
  auto parsed = parseSynchronization(target.sync);
  if (!parsed)
    return fromLlvm(Status::Usage, parsed.takeError());
  sync = std::move(*parsed);
  if (buckets)
    return makeError(Status::Usage, "--sync does not go with --buckets: replicas that exchange gradients take batches "
                                    "of one length");
  if (target.zero != "auto" && target.zero != "0")
    return makeError(Status::Usage, "--sync does not go with --zero ", target.zero,
                     ": the optimizer's state is with whoever keeps the parameters, and replicas have none to share");
  if (target.optimizerMemory == "host")
    return makeError(Status::Usage, "--sync does not go with --optimizer-memory host: the optimizer's state is with "
                                    "whoever keeps the parameters");
  if (target.batchNorm == "synchronized")
    return makeError(Status::Usage, "--sync does not go with --batch-norm synchronized: replicas that do not wait for "
                                    "each other have no statistics in common");
  if (sync->localSteps == 0 && sync->bound == 0u && target.replicas == 1)
    return makeError(Status::Usage, "--sync expects at least two replicas, got 1");
  return Error::success();
}

Expected<unsigned> ModelCompiler::findKeeperDevices() const {
  StringRef names = request.target.keeper;
  unsigned count = 0;
  if (names.consume_front(devicesPrefix)) {
    SmallVector<StringRef> list;
    names.split(list, ',');
    count = static_cast<unsigned>(list.size());
    for (auto [index, name] : llvm::enumerate(list)) {
      auto found = llvm::find_if(machine.devices, [&](const DeviceSpec &device) { return device.name == name; });
      if (found == machine.devices.end())
        return makeError(Status::Usage, "--keeper expects names of the machine's devices, from ",
                         machine.devices.front().name, " to ", machine.devices.back().name, ", got \"", name.str(),
                         "\"");
      if (list.size() > machine.devices.size() ||
          static_cast<size_t>(found - machine.devices.begin()) != machine.devices.size() - list.size() + index)
        return makeError(Status::Unsupported, "--keeper expects the last ", list.size(), " of the machine's ",
                         machine.devices.size(), " devices, in their order, got \"", request.target.keeper,
                         "\"; replicas run on those before");
    }
  }
  // The keeper is in the process of the first replica.
  size_t from = count != 0 ? machine.devices.size() - count : 0;
  if (request.target.keeper != "first")
    for (const DeviceSpec &device : llvm::drop_begin(machine.devices, from))
      if (device.host != machine.devices.front().host)
        return makeError(Status::Unsupported, "--keeper ", request.target.keeper, " expects devices of the host of \"",
                         machine.devices.front().name, "\", got \"", device.name,
                         "\" of another one; take --keeper first");
  return count;
}

void ModelCompiler::placeKeeper(const ChangedParameters &changed) {
  if (request.target.keeper == "first")
    return;
  dist::Replicas said = *dist::getReplicas(*module);
  int64_t replicaDevices = static_cast<int64_t>(said.count) * said.devices;
  SmallVector<int64_t> devices =
      request.target.keeper == "all"
          ? llvm::to_vector(llvm::seq<int64_t>(0, replicaDevices))
          : llvm::to_vector(llvm::seq<int64_t>(replicaDevices, static_cast<int64_t>(dist::getDevices(*module).size())));
  shardKeeper(module->lookupSymbol<dfg::GraphOp>(applyGraphName), module->lookupSymbol<dfg::GraphOp>(evaluateGraphName),
              changed.trained, devices);
}

Error ModelCompiler::takeFirstReplica() {
  if (!sync)
    return Error::success();
  auto keepers = findKeeperDevices();
  if (!keepers)
    return keepers.error();
  auto devices = static_cast<unsigned>(machine.devices.size()) - *keepers;
  replicas = request.target.replicas ? request.target.replicas : devices;
  if (replicas < 2)
    return makeError(Status::Usage, "--sync expects at least two replicas, got ", replicas,
                     replicas != devices ? ""
                     : *keepers          ? " device that --keeper leaves to them"
                                         : " device",
                     "; say --machine with more devices");
  if (devices % replicas != 0)
    return makeError(Status::Usage, "--replicas expects a divisor of the machine's ", devices, " devices",
                     *keepers ? " without those of --keeper" : "", ", got ", replicas);
  unsigned each = devices / replicas;
  for (unsigned index = each; index != machine.devices.size(); ++index)
    if (machine.devices[index].driver != machine.devices[index % each].driver ||
        machine.devices[index].chip != machine.devices[index % each].chip)
      return makeError(Status::Unsupported, "--sync expects replicas on devices that run the same code, got \"",
                       machine.devices[index % each].name, "\" and \"", machine.devices[index].name, "\"");
  everything = machine;
  machine = firstDevices(machine, each);
  return Error::success();
}

void ModelCompiler::showEverything() {
  if (!everything)
    return;
  auto each = static_cast<unsigned>(machine.devices.size());
  machine = std::move(*everything);
  everything.reset();
  setMachine(*module, machine);
  if (result.report) {
    std::vector<double> &peaks = result.report->prediction.peakBytes;
    // What the keeper's own devices take is known when they have programs.
    for (unsigned device = each; device != machine.devices.size() && peaks.size() == device; ++device)
      peaks.push_back(device < replicas * each ? peaks[device - each] : 0);
  }
  dist::setReplicas(*module, {replicas, each, sync->bound, sync->localSteps, sync->overlap});
}

Error ModelCompiler::chooseLocalSteps(ArrayRef<runtime::Setting> settings) {
  auto said = llvm::find_if(settings, [](const runtime::Setting &setting) { return setting.name == "sync"; });
  if (said == settings.end())
    return Error::success();
  auto parsed = parseSynchronization(said->value);
  if (!parsed)
    return fromLlvm(Status::Rejected, parsed.takeError());
  if (!parsed->choosesLocalSteps)
    return Error::success();
  auto plan = openPlan(result);
  if (!plan)
    return plan.error();
  auto choice = cleave::chooseLocalSteps(*plan, machine, readHostProfile(messages));
  if (!choice)
    return choice.error();
  dist::Replicas replicas = *dist::getReplicas(*module);
  replicas.localSteps = choice->steps;
  dist::setReplicas(*module, replicas);
  double bytes = exchangedBytes(*plan);
  result.machineNotes.push_back(
      llvm::formatv("local:auto is local:{0}: {1} a step of the run, {2} with an exchange {3}, {4} with next to none; "
                    "{5} a replica in an exchange, {6} a step",
                    choice->steps, secondsText(choice->seconds), secondsText(choice->secondsWithFewest),
                    choice->fewest == 1 ? "after each step" : "every " + countText(choice->fewest, "step"),
                    secondsText(choice->secondsWithMost), bytesText(bytes), bytesText(bytes / choice->steps)));
  return Error::success();
}

/// Running statistics of batch normalization, which a replica would keep for itself, so that nobody evaluates with
/// them.
static FlatSymbolRefAttr writtenStatistics(ModuleOp module, const ChangedParameters &changed) {
  for (FlatSymbolRefAttr name : changed.written)
    if (isa<FloatType>(module.lookupSymbol<dfg::ParameterOp>(name).getTensorType().getElementType()))
      return name;
  return {};
}

Error ModelCompiler::partStep(dfg::GraphOp step, const ChangedParameters &changed) {
  if (!sync)
    return Error::success();
  if (!training.schedule.drains())
    return makeError(Status::Usage, "--sync does not go with --schedule ", training.schedule->name,
                     ", which works with parameters of a step before by itself");
  if (FlatSymbolRefAttr statistics = writtenStatistics(*module, changed))
    return makeError(Status::Unsupported, "parameter \"", statistics.getValue().str(),
                     "\": --sync does not go with running statistics, which each replica would keep for itself; give "
                     "--batch-norm running");
  auto parted = sync->localSteps == 0 ? partAtGradients(step, changed, replicas, *sync)
                                      : addLocalSteps(step, changed.trained, replicas, *sync);
  if (failed(parted))
    return alreadySaid(Status::Unsupported);
  placeKeeper(changed);
  return Error::success();
}

} // namespace cleave
