// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices of the default machine, as many as are asked for.

#include "passes/cost/DefaultMachine.h"

#include "passes/cost/MachineFile.h"

using namespace llvm;

namespace cleave {

namespace {
struct DefaultFile {
  StringLiteral name, text;
};
} // namespace

static const Machine &defaults() {
  static constexpr DefaultFile files[] = {
#include "passes/cost/DefaultFiles.inc"
  };
  static const Machine machine = cantFail(parseMachineFile(files[0].text, files[0].name));
  return machine;
}

DeviceKind defaultKind(StringRef driver, unsigned cores) {
  if (driver == "cuda")
    return defaults().kinds.at("gpu");
  DeviceKind kind = defaults().kinds.at("core");
  kind.bandwidth *= cores;
  for (auto &[element, peak] : kind.peak)
    peak *= cores;
  kind.driver = driver.str();
  kind.cores = cores;
  return kind;
}

Machine defaultMachine(ArrayRef<DeviceSpec> devices) {
  Machine machine;
  machine.name = defaults().name;
  machine.devices.assign(devices.begin(), devices.end());
  HostSpec &host = machine.hosts.emplace_back();
  host.link = defaults().hosts.front().link;
  for (DeviceSpec &device : machine.devices) {
    device.kind = device.driver == "cuda" ? "gpu" : device.driver + "-" + std::to_string(device.cores);
    device.host = device.zone = 0;
    machine.kinds.try_emplace(device.kind, defaultKind(device.driver, device.cores));
    if (host.devices.empty() || host.devices.back().kind != device.kind)
      host.devices.push_back({device.kind, 0});
    ++host.devices.back().count;
  }
  return machine;
}

} // namespace cleave
