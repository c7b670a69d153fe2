// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds and reads the measurements of this host.

#include "passes/cost/HostCache.h"

#include "passes/cost/MachineFile.h"
#include "runtime/HostTopology.h"
#include "runtime/drivers/cpu/HostFeatures.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <cstdlib>
#include <set>

using namespace llvm;

namespace cleave {

static std::string joined(StringRef folder, const Twine &name) {
  SmallString<128> path(folder);
  sys::path::append(path, name);
  return path.str().str();
}

/// A variable of the environment; empty where it is not set.
static std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string cacheFolder() {
  if (std::string folder = environment("CLEAVE_CACHE"); !folder.empty())
    return folder;
  if (std::string folder = environment("XDG_CACHE_HOME"); !folder.empty())
    return joined(folder, "cleave");
  std::string home = environment("HOME");
  return home.empty() ? "" : joined(joined(home, ".cache"), "cleave");
}

std::string hostProcessor() {
  std::string name;
  // Files under /proc have no size.
  if (auto text = MemoryBuffer::getFileAsStream("/proc/cpuinfo"))
    for (StringRef rest = (*text)->getBuffer(); !rest.empty() && name.empty();) {
      auto [line, others] = rest.split('\n');
      if (line.starts_with("model name"))
        name = line.split(':').second.trim().str() + ", ";
      rest = others;
    }
  return name + sys::getHostCPUName().str();
}

unsigned hostCores() { return runtime::hostTopology().usableCores(); }

uint64_t hostMemory() { return runtime::hostTopology().memoryBytes; }

std::string hostCacheFile() {
  std::string folder = cacheFolder();
  if (folder.empty())
    return "";
  std::string name;
  for (char c : hostProcessor())
    if (isAlnum(c))
      name += toLower(c);
    else if (!name.empty() && name.back() != '-')
      name += '-';
  return joined(folder, name + "-" + Twine(hostCores()) + "-cores.yaml");
}

std::string hostKindName(unsigned cores) { return "cpu-" + std::to_string(cores); }

DeviceKind guessCpuKind(unsigned cores) {
  DeviceKind kind;
  kind.bandwidth = std::min(12e9 * cores, 50e9);
  kind.peak = {{"f32", 80e9 * cores}, {"f64", 40e9 * cores}};
  kind.efficiency["contraction"].points = {{1e5, 0.2}, {1e7, 0.6}, {1e9, 0.8}};
  kind.efficiency["convolution"].points = {{1e5, 0.15}, {1e7, 0.5}, {1e9, 0.7}};
  kind.launch = 2e-6;
  kind.driver = "cpu";
  kind.cores = cores;
  return kind;
}

/// The measurements, if there are any that can be used.
static std::optional<Machine> readMeasurements(std::vector<std::string> &warnings) {
  std::string file = hostCacheFile();
  if (file.empty() || !sys::fs::exists(file))
    return std::nullopt;
  auto machine = readMachineFile(file);
  if (machine && machine->kinds.contains(hostKindName(1)))
    return std::move(*machine);
  std::string why = machine ? file + ": expects the device kind \"" + hostKindName(1) + "\", found none"
                            : toString(machine.takeError());
  warnings.push_back("what cleave probe has measured cannot be used: " + why);
  return std::nullopt;
}

void describeHost(Machine &machine, unsigned count, unsigned cores) {
  std::optional<Machine> measured = readMeasurements(machine.warnings);
  HostSpec host;
  host.cores = hostCores();
  // What is measured, or guessed, of all cores is all that a device with more of them gets.
  cores = std::min(cores, host.cores);
  std::string kind = hostKindName(cores);
  if (measured) {
    for (unsigned fewer = cores; !measured->kinds.contains(kind); --fewer)
      kind = hostKindName(fewer);
    machine.kinds[kind] = measured->kinds[kind];
    // Measured alone, a device has all of the host's.
    machine.kinds[kind].memory /= count;
    host.link = measured->hosts.front().link;
  } else {
    DeviceKind &guess = machine.kinds[kind] = guessCpuKind(cores);
    // What libraries have for AVX-512 and, of constant weights, for AVX2.
    const EfficiencyCurve winograd{{{1e5, 0.15}, {1e7, 0.8}, {1e9, 1.6}}};
    std::set<std::string> features = runtime::hostFeatures();
    if (features.contains("avx2") && features.contains("fma"))
      guess.efficiency["winograd"] = winograd;
    if (features.contains("avx512f"))
      guess.efficiency["winograd_training"] = winograd;
    machine.notes.push_back("the speed of this host is a guess; predictions get better by cleave probe");
  }
  host.devices.push_back({kind, count});
  machine.hosts.push_back(host);
  for (DeviceSpec &device : machine.devices)
    device.kind = kind;
}

} // namespace cleave
