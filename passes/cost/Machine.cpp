// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machines by name: this host's cores, devices that compute nothing, and presets.

#include "passes/cost/Machine.h"

#include "passes/cost/HostCache.h"
#include "passes/cost/MachineFile.h"
#include "passes/cost/Presets.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/TargetParser/X86TargetParser.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace cleave {

double EfficiencyCurve::at(double size) const {
  if (points.empty())
    return 1;
  auto above = std::upper_bound(points.begin(), points.end(), size,
                                [](double value, const Point &point) { return value < point.size; });
  if (above == points.begin())
    return points.front().share;
  if (above == points.end())
    return points.back().share;
  const Point &below = *std::prev(above);
  double part = std::log(size / below.size) / std::log(above->size / below.size);
  return below.share + part * (above->share - below.share);
}

unsigned HostSpec::numDevices() const {
  unsigned number = 0;
  for (const Devices &some : devices)
    number += some.count;
  return number;
}

const EfficiencyCurve *DeviceKind::findCurve(StringRef costClass, StringRef elementType) const {
  for (std::string key : {(costClass + "." + elementType).str(), costClass.str()})
    if (auto found = efficiency.find(key); found != efficiency.end())
      return &found->second;
  return nullptr;
}

const TileModel *DeviceKind::findTiles(StringRef elementType) const {
  std::string own = ("contraction." + elementType).str();
  if (auto found = tiles.find(own); found != tiles.end())
    return &found->second;
  auto found = efficiency.count(own) ? tiles.end() : tiles.find("contraction");
  return found == tiles.end() ? nullptr : &found->second;
}

unsigned DeviceKind::processors() const {
  unsigned most = 0;
  for (auto &[products, model] : tiles)
    most = std::max(most, model.units);
  return most;
}

bool isChipName(StringRef name) {
  return name.consume_front("sm_") && (name.size() == 2 || name.size() == 3) && all_of(name, isDigit) &&
         name.front() != '0';
}

bool isProcessorName(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '+');
  return all_of(parts, [](StringRef part) {
    return part == "native" || X86::parseArchX86(part, /*Only64Bit=*/true) != X86::CK_None;
  });
}

/// The 90 of "sm_90"; 0 where it is no name of a chip.
static unsigned chipNumber(StringRef name) {
  unsigned number = 0;
  return isChipName(name) && to_integer(name.drop_front(3), number, 10) ? number : 0;
}

std::string whyNotCuda(const DeviceKind &kind) {
  if (kind.cores != 1)
    return "expects no cores with driver cuda, got " + std::to_string(kind.cores);
  if (!kind.chip.empty() && chipNumber(kind.chip) < chipNumber(oldestChip))
    return ("expects a chip of " + oldestChip + " or newer with driver cuda, got \"" + kind.chip + "\"").str();
  return "";
}

std::vector<unsigned> zoneNumbers(const Machine &machine) {
  std::map<StringRef, unsigned> numbers;
  for (const ZoneLinkSpec &link : machine.links)
    for (StringRef zone : {StringRef(link.from), StringRef(link.to)})
      numbers.try_emplace(zone, numbers.size() + 1);
  std::vector<unsigned> result;
  for (const HostSpec &host : machine.hosts) {
    auto named = numbers.find(host.zone);
    result.push_back(named == numbers.end() ? 0 : named->second);
  }
  return result;
}

void addDevices(Machine &machine) {
  unsigned host = 0;
  std::vector<unsigned> zones = zoneNumbers(machine);
  for (auto [spec, zone] : zip_equal(machine.hosts, zones))
    for (unsigned i = 0; i < spec.count; ++i, ++host)
      for (const HostSpec::Devices &devices : spec.devices) {
        const DeviceKind &kind = machine.kinds.at(devices.kind);
        // What only stands for a GPU runs nothing: its code need not be for the very chip, which may be too old for
        // code, or too new.
        std::string chip = kind.chip;
        if (kind.driver == "cuda" ? chip.empty() : kind.driver == "null" && !chip.empty())
          chip = oldestChip.str();
        for (unsigned j = 0; j < devices.count; ++j)
          machine.devices.push_back({devices.kind + "." + std::to_string(machine.devices.size()), kind.driver,
                                     kind.cores, kind.memory, devices.kind, host, chip, zone});
      }
}

std::vector<uint64_t> hostMemory(const Machine &machine) {
  std::vector<uint64_t> bytes;
  for (const HostSpec &host : machine.hosts)
    bytes.insert(bytes.end(), host.count, host.memoryOfDevice());
  return bytes;
}

/// A host's first devices.
static HostSpec firstDevices(HostSpec host, unsigned count) {
  unsigned left = count;
  for (HostSpec::Devices &devices : host.devices)
    left -= devices.count = std::min(devices.count, left);
  llvm::erase_if(host.devices, [](const HostSpec::Devices &devices) { return devices.count == 0; });
  left = count;
  for (SwitchSpec &spec : host.switches)
    left -= spec.devices = std::min(spec.devices, left);
  llvm::erase_if(host.switches, [](const SwitchSpec &spec) { return spec.devices == 0; });
  llvm::erase_if(host.pairs, [&](const PairSpec &pair) { return std::max(pair.first, pair.second) >= count; });
  host.count = 1;
  return host;
}

Machine firstDevices(const Machine &machine, unsigned count) {
  Machine part = machine;
  part.devices.resize(count);
  part.hosts.clear();
  unsigned left = count;
  for (const HostSpec &host : machine.hosts) {
    unsigned each = host.numDevices(), whole = each == 0 ? 0 : std::min(host.count, left / each);
    if (whole != 0) {
      part.hosts.push_back(host);
      part.hosts.back().count = whole;
      left -= whole * each;
    }
    if (left == 0)
      break;
    if (whole == host.count)
      continue;
    part.hosts.push_back(firstDevices(host, left));
    break;
  }
  return part;
}

static bool isMachineFile(StringRef name) { return name.ends_with(".yaml") || name.ends_with(".yml"); }

static constexpr unsigned mostCores = 4096;

static Error machineError(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

static Machine makeMachine(StringRef name, StringRef driver, unsigned count, unsigned cores) {
  Machine machine;
  machine.name = name.str();
  for (unsigned index = 0; index < count; ++index) {
    DeviceSpec &device = machine.devices.emplace_back();
    device.name = driver.str() + std::to_string(index);
    device.driver = driver.str();
    device.cores = cores;
  }
  return machine;
}

/// "host", "host:N", "host:NxC".
static Expected<Machine> parseHost(StringRef text) {
  unsigned available = std::min(hostCores(), mostCores);
  auto [countText, coresText] = text.split(':').second.split('x');
  unsigned count = 1;
  if (text.contains(':')) {
    auto parsed = parseCount(countText, "devices", mostDevices, text);
    if (!parsed)
      return parsed.takeError();
    count = *parsed;
  }
  unsigned cores = std::max(1u, available / count);
  if (text.contains('x')) {
    auto parsed = parseCount(coresText, "cores", mostCores, text);
    if (!parsed)
      return parsed.takeError();
    cores = *parsed;
  }
  Machine machine = makeMachine(text, "cpu", count, cores);
  describeHost(machine, count, cores);
  return machine;
}

/// Their speed is that of a guessed core.
static Expected<Machine> parseNull(StringRef text) {
  auto count = parseCount(text.split(':').second, "devices", mostDevices, text);
  if (!count)
    return count.takeError();
  Machine machine = makeMachine(text, "null", *count, 1);
  machine.kinds["null"] = guessCpuKind(1);
  machine.kinds["null"].driver = "null";
  HostSpec &host = machine.hosts.emplace_back();
  host.devices.push_back({"null", *count});
  for (DeviceSpec &device : machine.devices)
    device.kind = "null";
  return machine;
}

/// The machine of a preset or a file, its devices run by the driver "cuda".
static Expected<Machine> parseCuda(StringRef text) {
  StringRef name = text.split(':').second;
  bool isFile = isMachineFile(name);
  if (!isFile && (name.empty() || name == "host" || is_contained({"host", "null", "cuda"}, name.split(':').first)))
    return machineError("machine \"" + text + "\" expects a preset or a machine file after \"cuda:\", as in " +
                        "cuda:h100:2; got \"" + name + "\"");
  Expected<Machine> machine = isFile ? readMachineFile(name) : parsePreset(name);
  if (!machine)
    return machine.takeError();
  for (auto &[kindName, kind] : machine->kinds) {
    if (std::string reason = whyNotCuda(kind); !reason.empty())
      return machineError("machine \"" + text + "\": device kind \"" + kindName + "\" " + reason);
    kind.driver = "cuda";
  }
  machine->name = "cuda:" + machine->name;
  machine->devices.clear();
  addDevices(*machine);
  return machine;
}

bool namesMachineFile(StringRef text) {
  text.consume_front("cuda:");
  return isMachineFile(text);
}

Expected<Machine> parseMachine(StringRef text) {
  if (text.starts_with("cuda:"))
    return parseCuda(text);
  if (isMachineFile(text))
    return readMachineFile(text);
  if (text == "host" || text.starts_with("host:"))
    return parseHost(text);
  if (text.starts_with("null:"))
    return parseNull(text);
  return parsePreset(text);
}

} // namespace cleave
