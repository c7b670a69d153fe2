// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the command line asks of the search.

#include "compiler/ModelCompiler.h"

#include "passes/cost/Quantity.h"
#include "passes/pipeline/Schedule.h"
#include "passes/planner/PlaceOperators.h"
#include "passes/train/Optimizer.h"

#include "llvm/ADT/StringExtras.h"

namespace cleave {

/// A step is written out microbatch by microbatch.
static constexpr int64_t largestMicrobatches = 4096;

/// The first option of the search that was given; null where none was.
const char *ModelCompiler::findSearchOption() const {
  const TargetOptions &target = request.target, defaults;
  bool decides = !trains();
  const std::pair<const char *, bool> given[] = {
      {"--train", decides && target.train},
      {"--batch", onlyPlans() && target.batch != 0},
      {"--microbatches", decides && target.microbatches != defaults.microbatches},
      {"--schedule", decides && target.schedule != defaults.schedule},
      {"--chunks", target.chunks != defaults.chunks},
      {"--recompute", decides && target.recompute != defaults.recompute},
      {"--zero", decides && target.zero != defaults.zero},
      {"--optimizer-memory", decides && target.optimizerMemory != defaults.optimizerMemory},
      {"--dtype", onlyPlans() && target.elementType != defaults.elementType},
      {"--memory", !target.memory.empty()},
      {"--solver", target.solver != defaults.solver},
      {"--search-seconds", target.timeBudget != 0},
      {"--objective", target.objective != defaults.objective},
      {"--max-step", !target.mostStep.empty()}};
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
  search.batch = trains() ? batch : onlyPlans() ? target.batch : 0;
  search.degrees = options.degrees;
  search.elementType = target.elementType;
  search.keys = *search::findKeys(target.keys);
  search.roundsParameters = trains();
  auto keepsRounded = keepsRoundedParameters();
  if (!keepsRounded)
    return keepsRounded.error();
  search.keepsRounded = *keepsRounded;
  auto optimizer = parseOptimizer(target.optimizer, target.optimizerOptions);
  if (!optimizer)
    return fromLlvm(Status::Usage, optimizer.takeError());
  search.optimizerStates = static_cast<unsigned>(stateOf(*optimizer).size());
  search.timeBudget = target.timeBudget;
  search.solver.method = *solver::findMethod(target.solver);
  for (auto [flag, value] : {std::pair("--microbatches", target.microbatches != "auto"),
                             {"--schedule", target.schedule != "auto"},
                             {"--chunks", target.chunks != 0},
                             {"--recompute", target.recompute != "auto"},
                             {"--zero", target.zero != "auto"},
                             {"--optimizer-memory", target.optimizerMemory != "auto"}})
    if (value && !target.train)
      return makeError(Status::Usage, flag, " expects --train");
  auto microbatches = readMicrobatches();
  if (!microbatches)
    return microbatches.error();
  search.microbatches = *microbatches;
  // A step that runs is written for microbatches of one size.
  search.unequalMicrobatches = onlyPlans();
  if (target.schedule != "auto")
    search.schedule = pipeline::findSchedule(target.schedule);
  if (target.chunks != 0) {
    if (!search.schedule || !search.schedule->hasChunks())
      return makeError(Status::Usage, "--chunks expects a --schedule whose stages have several parts, got ",
                       target.schedule);
    search.chunks = target.chunks;
  }
  if (target.recompute != "auto")
    search.recompute = search::findRecompute(target.recompute);
  if (target.zero != "auto")
    search.zero = static_cast<unsigned>(target.zero[0] - '0');
  if (target.optimizerMemory != "auto")
    search.optimizerInHost = target.optimizerMemory == "host";
  for (auto [flag, isInHost] : {std::pair("--recompute offload", search.recompute == search::Recompute::Offload),
                                {"--optimizer-memory host", search.optimizerInHost == true}})
    if (isInHost && search.schedule && (*search.schedule)->weightDelay > 0)
      return makeError(Status::Usage, flag, " does not go with --schedule ", target.schedule,
                       ", whose pipeline does not drain: what it keeps stays on the devices");
  if (!target.memory.empty()) {
    auto bytes = parseQuantity(target.memory, sizeUnits, "--memory");
    if (!bytes)
      return fromLlvm(Status::Usage, bytes.takeError());
    search.memoryLimit = *bytes;
  }
  search.memoryShare = memoryShare;
  search.leastCost = target.objective == "cost";
  if (!target.mostStep.empty()) {
    if (!search.leastCost)
      return makeError(Status::Usage, "--max-step expects --objective cost");
    auto seconds = parseQuantity(target.mostStep, timeUnits, "--max-step");
    if (!seconds)
      return fromLlvm(Status::Usage, seconds.takeError());
    search.mostSeconds = *seconds;
  }
  return Error::success();
}

} // namespace cleave
