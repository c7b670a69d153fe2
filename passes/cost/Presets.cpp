// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The presets' machine files, and machines of several of their hosts.

#include "passes/cost/Presets.h"

#include "passes/cost/MachineFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave {

//===-- files -------------------------------------------------------------------------------------------------===//

/// The files of passes/cost/presets, and of devices with NVLink what their topology is read with.
static constexpr Preset presets[] = {
#include "passes/cost/PresetFiles.inc"
};

ArrayRef<Preset> allPresets() { return presets; }

const Preset *findPreset(StringRef name) {
  for (const Preset &preset : presets)
    if (preset.name == name)
      return &preset;
  return nullptr;
}

//===-- machines ----------------------------------------------------------------------------------------------===//

static Error presetError(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

/// Keeps a host's first devices, and what is between them.
static void keepDevices(HostSpec &host, unsigned count) {
  host.devices.front().count = count;
  erase_if(host.pairs, [&](const PairSpec &pair) { return pair.second >= count; });
  unsigned left = count;
  for (SwitchSpec &part : host.switches) {
    part.devices = std::min(part.devices, left);
    left -= part.devices;
  }
  erase_if(host.switches, [](const SwitchSpec &part) { return part.devices == 0; });
}

Expected<unsigned> parseCount(StringRef text, StringRef what, unsigned most, StringRef machine) {
  unsigned count = 0;
  if (!to_integer(text, count, 10) || count < 1 || count > most)
    return presetError("machine \"" + machine + "\" expects a number of " + what + " from 1 to " + Twine(most) +
                       ", got \"" + text + "\"");
  return count;
}

/// Adds the hosts of "NAME:DEVICESxHOSTS" to a machine.
static Error addPreset(StringRef text, Machine &machine) {
  auto [name, size] = text.split(':');
  const Preset *preset = findPreset(name);
  if (!preset) {
    SmallVector<StringRef> names;
    for (const Preset &known : presets)
      names.push_back(known.name);
    return presetError("machine expects host, host:N, host:NxC, null:N, a .yaml file, or one of " + join(names, ", ") +
                       ", as in a100-80g:8x4, also after cuda:; got \"" + text + "\"");
  }
  auto file = parseMachineFile(preset->text, preset->name);
  if (!file)
    return file.takeError();
  HostSpec host = file->hosts.front();
  if (text.contains(':')) {
    auto [devices, hosts] = size.split('x');
    auto count = parseCount(devices, "devices", host.numDevices(), text);
    if (!count)
      return count.takeError();
    keepDevices(host, *count);
    if (size.contains('x')) {
      auto numHosts = parseCount(hosts, "hosts", mostDevices / *count, text);
      if (!numHosts)
        return numHosts.takeError();
      host.count = *numHosts;
    }
  }
  host.network = file->network;
  machine.kinds.insert(file->kinds.begin(), file->kinds.end());
  machine.hosts.push_back(std::move(host));
  return Error::success();
}

Expected<Machine> parsePreset(StringRef text) {
  Machine machine;
  machine.name = text.str();
  SmallVector<StringRef> parts;
  text.split(parts, '+');
  uint64_t numDevices = 0;
  for (StringRef part : parts) {
    if (Error failure = addPreset(part, machine))
      return failure;
    numDevices += uint64_t(machine.hosts.back().count) * machine.hosts.back().numDevices();
    if (numDevices > mostDevices)
      return presetError("machine \"" + text + "\" expects at most " + Twine(mostDevices) + " devices, got more");
  }
  addDevices(machine);
  return machine;
}

} // namespace cleave
