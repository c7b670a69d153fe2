// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks options of replicas against a plan.

#include "runtime/training/asynchronous/ReplicaOptions.h"

#include "runtime/Processes.h"

#include <algorithm>
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
  if (!options.traceFile.empty())
    return makeError(Status::Unsupported, "--trace does not go with a plan with replicas");
  for (const std::string &trial : options.trials)
    if (Error error = read.addTrial(trial, plan.replicas->count))
      return error;
  if (options.goOnWithout && plan.replicas->areTogether())
    return makeError(Status::Usage, "--lost-replica go-on expects replicas that make versions by themselves, compiled "
                                    "with --sync ssp:S and an S above 0; these wait for each other's gifts");
  if (options.processes && options.processes->count() > 1)
    if (Error error = read.divide(options, plan))
      return error;
  read.goOn = options.goOnWithout;
  read.recordFile = options.recordFile;
  read.replayFile = options.replayFile;
  return read;
}

Error ReplicaOptions::divide(const TrainOptions &options, const PlanContents &plan) {
  const Replicas &replicas = *plan.replicas;
  uint32_t processes = options.processes->count();
  if (processes > replicas.count)
    return makeError(Status::Unsupported, "a plan with ", replicas.count,
                     " replicas expects at most as many processes, since a replica runs in one, got ", processes,
                     "; start fewer (mpirun -n)");
  auto divided = options.devicesOfRank.empty()
                     ? divideDevices(replicas.count, processes, {})
                     : divideDevices(static_cast<uint32_t>(plan.devices.size()), processes, options.devicesOfRank);
  if (!divided)
    return divided.error();
  for (uint32_t device = 0; device != plan.devices.size(); ++device) {
    uint32_t replica = device / replicas.devices;
    bool isKeepers = replica >= replicas.count;
    uint32_t rank = !options.devicesOfRank.empty() ? (*divided)[device] : isKeepers ? 0 : (*divided)[replica];
    rankOfDevice.push_back(rank);
    if (replica == ranks.size() && replica != replicas.count)
      ranks.push_back(rank);
    else if (replica < replicas.count && rank != ranks[replica])
      return makeError(Status::Unsupported, "--devices-of-rank expects the devices of a replica in one process, got \"",
                       plan.devices[device].name, "\" of replica ", replica, " in rank ", rank, " and others in rank ",
                       ranks[replica]);
  }
  for (uint32_t device : keeperDevices(plan))
    if (device >= replicas.devices && rankOfDevice[device] != 0)
      return makeError(Status::Unsupported, "device \"", plan.devices[device].name,
                       "\", which keeps parameters, expects ", "to be in rank 0, got rank ", rankOfDevice[device],
                       device >= replicas.count * replicas.devices
                           ? "; change --devices-of-rank"
                           : "; compile with --keeper first or devices=..., or run in one process");
  if (ranks.front() != 0)
    return makeError(Status::Unsupported, "--devices-of-rank expects replica 0, beside which the parameters are kept, ",
                     "in rank 0, got rank ", ranks.front());
  return Error::success();
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
