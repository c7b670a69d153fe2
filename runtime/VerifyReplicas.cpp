// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the ports of entries that exchange versions.

#include "runtime/VerifyReplicas.h"

#include <algorithm>
#include <map>
#include <set>

namespace cleave::runtime {

namespace {

template <typename... Parts> Error refuse(const Parts &...parts) {
  return makeError(Status::Rejected, "replicas: ", parts...);
}

/// The parameters of an entry's ports, each with its ports.
using ByParameter = std::map<uint32_t, std::vector<const Port *>>;

class ReplicaRules {
public:
  explicit ReplicaRules(const PlanContents &plan) : plan(plan), replicas(*plan.replicas) {}

  Error check() {
    if (Error error = checkDevices())
      return error;
    bool isLocal = replicas.localSteps != 0, overlaps = replicas.overlap != 0;
    const Entry *train = find("train"), *apply = find(applyEntryName), *fetch = find(fetchEntryName),
                *give = find(giveEntryName), *merge = find(mergeEntryName);
    if (!train || !apply || isLocal != (fetch && give))
      return refuse("expect entries \"train\" and \"apply\", and with local steps \"fetch\" and \"give\"");
    if (overlaps != (merge != nullptr))
      return refuse("expect an entry \"merge\" where exchanges overlap with steps, and nowhere else");
    if (overlaps && replicas.overlap >= replicas.localSteps)
      return refuse("expect fewer steps that hide an exchange than the ", replicas.localSteps, " between two, got ",
                    replicas.overlap);
    const Entry &taker = isLocal ? *fetch : *train, &giver = isLocal ? *give : *train;
    for (const Entry &entry : plan.entries)
      if (Error error = checkPorts(entry, &entry == &taker || &entry == merge, &entry == &giver, isLocal))
        return error;
    for (const Entry *each : {&taker, merge})
      if (each)
        if (Error error = checkVersions(*apply, *each, isLocal ? train : nullptr))
          return error;
    return checkGifts(giver, *apply);
  }

private:
  const Entry *find(const char *name) const {
    auto found = std::ranges::find(plan.entries, name, &Entry::name);
    return found == plan.entries.end() || found->isDecision() || found->samples == 0 ? nullptr : &*found;
  }

  Error checkDevices() const {
    uint64_t all = static_cast<uint64_t>(replicas.count) * replicas.devices;
    if (replicas.count < 2 || replicas.devices == 0 || all > plan.devices.size())
      return refuse("expect at least two with devices of their own, got ", replicas.count, " of ", replicas.devices,
                    " devices in a plan of ", plan.devices.size());
    for (const Entry &entry : plan.entries)
      for (const Program &program : entry.programs)
        for (uint32_t device : plan.meshes[program.mesh].devices)
          if (device >= replicas.devices && isOfReplicas(plan, entry))
            return refuse("entry \"", entry.name, "\" expects devices of the first, got \"", plan.devices[device].name,
                          "\" of mesh \"", plan.meshes[program.mesh].name, "\"");
    for (uint64_t index = replicas.devices; index != all; ++index) {
      const PlanDevice &own = plan.devices[index], &first = plan.devices[index % replicas.devices];
      if (own.driver != first.driver)
        return refuse("device \"", own.name, "\" expects the driver of \"", first.name, "\", which runs the same");
    }
    return Error::success();
  }

  /// Only those have ports of parameters that exchange them, and what does nothing else has no other ones.
  Error checkPorts(const Entry &entry, bool takes, bool gives, bool isLocal) const {
    bool isApply = entry.name == applyEntryName, isExchange = isApply || (isLocal && (takes || gives));
    auto check = [&](const std::vector<Port> &ports, bool may, const char *what) {
      for (const Port &port : ports)
        if ((port.parameter && !may) || (!port.parameter && isExchange))
          return refuse("entry \"", entry.name, "\": ", what, " \"", port.name, "\" expects to be of ",
                        port.parameter ? "no parameter" : "a parameter");
      return Error::success();
    };
    if (Error error = check(entry.inputs, takes || isApply, "input"))
      return error;
    return check(entry.outputs, gives || isApply, "output");
  }

  static ByParameter byParameter(const std::vector<Port> &ports) {
    ByParameter found;
    for (const Port &port : ports)
      if (port.parameter)
        found[*port.parameter].push_back(&port);
    return found;
  }

  std::string nameOf(uint32_t parameter) const { return "parameter \"" + plan.parameters[parameter].name + "\""; }

  static bool keeps(const Entry &entry, uint32_t parameter) {
    return std::ranges::any_of(entry.programs, [&](const Program &program) {
      return std::ranges::find(program.state, parameter, &State::parameter) != program.state.end();
    });
  }

  static bool loads(const Entry &entry, uint32_t parameter) {
    for (const Program &program : entry.programs)
      for (Phase phase : {Phase::Prepare, Phase::Body})
        for (const Instruction &instruction : program.instructions(phase))
          if (const auto *load = std::get_if<LoadParameter>(&instruction.action); load && load->parameter == parameter)
            return true;
    return false;
  }

  /// What "apply" gives out, `taker` takes: one version of everything that the keeper changes, all of one step. With
  /// local steps `keeper` is the entry that goes on with it.
  Error checkVersions(const Entry &apply, const Entry &taker, const Entry *keeper) const {
    ByParameter made = byParameter(apply.outputs), taken = byParameter(taker.inputs);
    for (const auto &[parameter, ports] : made) {
      if (parameter >= plan.parameters.size())
        return refuse("entry \"apply\" gives parameter ", parameter, ", but the plan has ", plan.parameters.size());
      if (ports.size() != 1 || ports.front()->type != plan.parameters[parameter].type)
        return refuse("entry \"apply\" expects to give ", nameOf(parameter), " once and as it is");
      if (!keeps(apply, parameter))
        return refuse("entry \"apply\" gives ", nameOf(parameter), ", which it does not keep");
      if (!taken.contains(parameter))
        return refuse("entry \"", taker.name, "\" expects a version of ", nameOf(parameter), ", got none");
    }
    if (made.empty())
      return refuse("entry \"apply\" expects to give parameters, got none");
    for (const auto &[parameter, ports] : taken) {
      if (!made.contains(parameter))
        return refuse("entry \"", taker.name, "\" takes input \"", ports.front()->name,
                      "\" as a version that \"apply\" does not make");
      if (ports.size() != 1 || ports.front()->type != plan.parameters[parameter].type)
        return refuse("entry \"", taker.name, "\" expects one version of ", nameOf(parameter), " in a step, got ",
                      ports.size());
      // What is kept, or loaded before the first step, is of no version that anybody waited for.
      bool isKept = keeps(taker, parameter);
      if (isKept != (keeper != nullptr) || (!keeper && loads(taker, parameter)))
        return refuse("entry \"", taker.name, "\" has ", nameOf(parameter), " besides the version that it takes; its ",
                      "age would not be bounded");
      if (keeper && !keeps(*keeper, parameter))
        return refuse("entry \"", keeper->name, "\" expects to keep ", nameOf(parameter), " from step to step");
    }
    return Error::success();
  }

  Error checkGifts(const Entry &giver, const Entry &apply) const {
    ByParameter given = byParameter(giver.outputs), taken = byParameter(apply.inputs);
    size_t together = replicas.areTogether() ? replicas.count : 1;
    for (const auto &[parameter, ports] : given) {
      // A gift may have parts, as numbers and their scale. Replicas' gifts follow each other.
      auto found = taken.find(parameter);
      size_t wanted = together * ports.size();
      if (found == taken.end() || found->second.size() != wanted)
        return refuse("entry \"apply\" expects ", wanted, " gifts for the parameter of output \"", ports.front()->name,
                      "\", got ", found == taken.end() ? 0 : found->second.size());
      for (size_t index = 0; index != wanted; ++index)
        if (const Port &port = *found->second[index], &part = *ports[index % ports.size()]; port.type != part.type)
          return refuse("entry \"apply\": input \"", port.name, "\" expects ", part.type.text(), ", got ",
                        port.type.text());
    }
    for (const auto &[parameter, ports] : taken)
      if (!given.contains(parameter))
        return refuse("entry \"apply\" takes input \"", ports.front()->name, "\", which \"", giver.name,
                      "\" does not give");
    return Error::success();
  }

  const PlanContents &plan;
  const Replicas &replicas;
};

} // namespace

Error verifyReplicas(const PlanContents &plan) {
  if (plan.replicas)
    return ReplicaRules(plan).check();
  for (const Entry &entry : plan.entries)
    for (const auto *ports : {&entry.inputs, &entry.outputs})
      for (const Port &port : *ports)
        if (port.parameter)
          return refuse("entry \"", entry.name, "\": port \"", port.name,
                        "\" is of a parameter, in a plan without any");
  return Error::success();
}

} // namespace cleave::runtime
