// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a model, again where the plan takes more memory than it may.

#include "passes/cost/Quantity.h"
#include "tools/cleave/Figures.h"
#include "tools/cleave/ModelCompiler.h"
#include "tools/cleave/PlanMachine.h"
#include "tools/cleave/TextTable.h"

#include <set>

using namespace mlir;

namespace cleave::tool {

/// The bytes of the fullest device's arenas; entries take turns on them.
static double fullestArena(const runtime::Plan &plan) {
  double most = 0;
  for (const runtime::Entry &entry : plan->entries)
    for (double bytes : arenaBytes(plan, entry))
      most = std::max(most, bytes);
  return most;
}

/// Compiles, again with less where the plan takes more memory than it may.
static Expected<CompiledModel> compileWithinMemory(const CompileRequest &request) {
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

/// Seconds of a step, by the simulator; -1 where it was not asked.
static double simulatedSeconds(const CompiledModel &compiled) {
  auto plan = openPlan(compiled);
  const auto &entries = plan ? (*plan)->entries : std::vector<runtime::Entry>();
  return entries.empty() || !entries.front().prediction ? -1 : entries.front().prediction->simulatedSeconds;
}

/// Whether the request leaves it to the search how a model infers on devices of several kinds or hosts, or on several
/// that are only planned for, so that no kernels are compiled.
static bool searchesAmongUnlike(const CompileRequest &request, const CompiledModel &compiled) {
  const TargetOptions &target = request.target;
  bool isFree = compiled.strategy == "auto" && !target.train && target.placementFile.empty() &&
                target.degrees.empty() && target.objective != "cost" && target.memory.empty() && !request.decision;
  if (!isFree || compiled.plan.empty())
    return false;
  auto machine = readMachine(target.machine);
  std::set<std::string> kinds;
  if (machine)
    for (const DeviceSpec &device : machine->devices)
      kinds.insert(device.kind);
  if (!machine || machine->devices.size() < 2)
    return false;
  const DeviceSpec &last = machine->devices.back();
  return kinds.size() > 1 || last.host > 0 || last.driver == "null";
}

/// The simulator sees what the search sums up: loads, stores and exchanges as they follow each other. On devices of
/// several kinds or hosts, where these differ most, it decides between the plan that was found and equal parts of the
/// batch.
static Expected<CompiledModel> compileFaster(const CompileRequest &request) {
  auto compiled = compileWithinMemory(request);
  if (!compiled || !searchesAmongUnlike(request, *compiled))
    return compiled;
  CompileRequest inParts = request;
  inParts.target.strategy = "data";
  inParts.target.timeBudget = 0;
  inParts.target.solver = TargetOptions().solver;
  inParts.isTrial = true;
  auto other = ModelCompiler(inParts).run();
  if (!other)
    return compiled;
  double found = simulatedSeconds(*compiled), equal = simulatedSeconds(*other);
  if (equal < 0 || equal >= found)
    return compiled;
  printNote("by the simulator a step takes " + secondsText(found) + " with the plan that the search found, and " +
            secondsText(equal) + " with the batch in equal parts, as by --strategy data, which is taken");
  return other;
}

Expected<CompiledModel> compileModel(const CompileRequest &request) {
  auto compiled = compileFaster(request);
  if (compiled && !compiled->mixing.empty())
    printWarning(compiled->mixing);
  return compiled;
}

Expected<runtime::Plan> openPlan(const CompiledModel &compiled) {
  return runtime::Plan::fromBytes(std::as_bytes(std::span(compiled.plan)));
}

} // namespace cleave::tool
