// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks options of replicas against a plan.

#include "runtime/training/asynchronous/ReplicaOptions.h"

#include "runtime/Processes.h"

#include <charconv>

namespace cleave::runtime {

Expected<ReplicaOptions> ReplicaOptions::read(const TrainOptions &options, const PlanContents &plan) {
  ReplicaOptions read;
  for (auto [flag, isGiven] : {std::pair("--record", !options.recordFile.empty()),
                               {"--replay", !options.replayFile.empty()},
                               {"--try-replica", !options.trials.empty()},
                               {"--lost-replica", options.goOnWithout}})
    if (isGiven && !plan.replicas)
      return makeError(Status::Usage, flag, " expects a plan with replicas; compile with --sync");
  if (!plan.replicas)
    return read;
  if (options.processes && options.processes->count() > 1)
    return makeError(Status::Unsupported, "a plan with replicas runs in one process, got ", options.processes->count(),
                     "; run it without mpirun");
  if (!options.traceFile.empty())
    return makeError(Status::Unsupported, "--trace does not go with a plan with replicas");
  for (const std::string &trial : options.trials)
    if (Error error = read.addTrial(trial, plan.replicas->count))
      return error;
  if (options.goOnWithout && plan.replicas->areTogether())
    return makeError(Status::Usage, "--lost-replica go-on expects replicas that make versions by themselves, compiled "
                                    "with --sync ssp:S and an S above 0; these wait for each other's gifts");
  read.goOn = options.goOnWithout;
  read.recordFile = options.recordFile;
  read.replayFile = options.replayFile;
  return read;
}

Error ReplicaOptions::addTrial(const std::string &text, uint32_t replicas) {
  auto refuse = [&] {
    return makeError(Status::Usage, "--try-replica expects R:slow=F or R:fail=STEP for one of replicas 0 to ",
                     replicas - 1, ", got \"", text, "\"");
  };
  uint32_t replica = 0;
  const char *end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, replica);
  std::string_view rest(parsed.ptr, static_cast<size_t>(end - parsed.ptr));
  if (parsed.ec != std::errc() || replica >= replicas)
    return refuse();
  if (rest.starts_with(":slow=")) {
    double factor = 0;
    auto number = std::from_chars(rest.data() + 6, end, factor);
    if (number.ec != std::errc() || number.ptr != end || !(factor >= 1 && factor <= 1e6))
      return refuse();
    trials[replica].slowdown = factor;
    return Error::success();
  }
  uint64_t step = 0;
  if (!rest.starts_with(":fail="))
    return refuse();
  auto number = std::from_chars(rest.data() + 6, end, step);
  if (number.ec != std::errc() || number.ptr != end || step == 0)
    return refuse();
  trials[replica].fails = step;
  return Error::success();
}

} // namespace cleave::runtime
