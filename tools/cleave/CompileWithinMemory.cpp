// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a model, again where the plan takes more memory than it may.

#include "passes/cost/Quantity.h"
#include "tools/cleave/ModelCompiler.h"
#include "tools/cleave/TextTable.h"

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

Expected<CompiledModel> compileModel(const CompileRequest &request) {
  auto compiled = compileWithinMemory(request);
  if (compiled && !compiled->mixing.empty())
    printWarning(compiled->mixing);
  return compiled;
}

Expected<runtime::Plan> openPlan(const CompiledModel &compiled) {
  return runtime::Plan::fromBytes(std::as_bytes(std::span(compiled.plan)));
}

} // namespace cleave::tool
