// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads machine files: device kinds, hosts, the network.

#include "passes/cost/MachineFile.h"

#include "passes/cost/MachineFileEfficiency.h"
#include "passes/cost/MachineFileLinks.h"
#include "runtime/DriverNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave {

//===-- sections ----------------------------------------------------------------------------------------------===//

static Error readPeak(const YamlValue &kind, StringRef subject, std::map<std::string, double> &peak) {
  const YamlValue *values = kind.find("peak");
  if (!values)
    return Error::success();
  std::string inner = (subject + " peak").str();
  if (Error failure = values->expect(YamlValue::Kind::Map, inner))
    return failure;
  if (Error failure = values->expectKeys(elementTypes, inner))
    return failure;
  for (auto &[name, value] : values->entries)
    if (Error failure = readPositive(*values, name.text, speedUnits, inner, peak[name.text]))
      return failure;
  return Error::success();
}

static Error readSlowdown(const YamlValue &kind, StringRef key, StringRef subject, double &target) {
  if (Error failure = readQuantity(kind, key, noUnit, subject, target))
    return failure;
  const YamlValue *value = kind.find(key);
  if (value && target < 1)
    return value->error(subject + " " + key + " expects at least 1, got \"" + value->text + "\"");
  return Error::success();
}

static Error readDriver(const YamlValue &kind, StringRef subject, std::string &target) {
  const YamlValue *driver = kind.find("driver");
  if (!driver)
    return Error::success();
  // Whether this build has it or not: what is compiled here may run elsewhere.
  std::vector<std::string> known = {"null", "cpu", "cuda"};
  for (const std::string &added : runtime::driverNames())
    if (!is_contained(known, added))
      known.push_back(added);
  if (driver->kind != YamlValue::Kind::Text || !is_contained(known, driver->text))
    return driver->error(subject + " driver expects " + join(ArrayRef(known).drop_back(), ", ") + " or " +
                         known.back() + (driver->text.empty() ? "" : ", got \"" + driver->text + "\""));
  target = driver->text;
  return Error::success();
}

/// After the driver, which says what a chip is.
static Error readChip(const YamlValue &value, StringRef subject, DeviceKind &kind) {
  const YamlValue *chip = value.find("chip");
  if (!chip)
    return Error::success();
  if (isProcessor(kind.driver)) {
    if (chip->kind != YamlValue::Kind::Text || !isProcessorName(chip->text))
      return chip->error(subject + " chip expects a processor as x86-64-v3 with driver " + kind.driver +
                         (chip->text.empty() ? "" : ", got \"" + chip->text + "\""));
    kind.chip = chip->text;
    return Error::success();
  }
  if (chip->kind != YamlValue::Kind::Text || !isChipName(chip->text))
    return chip->error(chip->text.empty()
                           ? Twine(subject + " chip expects an architecture as sm_90")
                           : Twine(subject + " chip expects an architecture as sm_90, got \"" + chip->text + "\""));
  kind.chip = chip->text;
  return Error::success();
}

static Error readKind(const YamlValue &name, const YamlValue &value, Machine &machine) {
  std::string subject = "device kind \"" + name.text + "\"";
  if (name.text.empty())
    return name.error("a device kind expects a name, got none");
  if (Error failure = value.expect(YamlValue::Kind::Map, subject))
    return failure;
  if (Error failure = value.expectKeys({"memory", "bandwidth", "peak", "efficiency", "launch", "step", "host",
                                        "overlap_slowdown", "neighbour_slowdown", "driver", "cores", "chip", "price"},
                                       subject))
    return failure;
  DeviceKind &kind = machine.kinds[name.text];
  if (Error failure = readQuantity(value, "memory", sizeUnits, subject, kind.memory))
    return failure;
  if (Error failure = readPositive(value, "bandwidth", bandwidthUnits, subject, kind.bandwidth))
    return failure;
  if (Error failure = readPeak(value, subject, kind.peak))
    return failure;
  if (Error failure = readEfficiency(value, subject, kind))
    return failure;
  if (Error failure = readQuantity(value, "launch", timeUnits, subject, kind.launch))
    return failure;
  if (Error failure = readQuantity(value, "step", timeUnits, subject, kind.step))
    return failure;
  if (Error failure = readWayFromHost(value, subject, kind.host))
    return failure;
  if (Error failure = readQuantity(value, "price", priceUnits, subject, kind.price))
    return failure;
  if (Error failure = readSlowdown(value, "overlap_slowdown", subject, kind.overlapSlowdown))
    return failure;
  if (Error failure = readSlowdown(value, "neighbour_slowdown", subject, kind.neighbourSlowdown))
    return failure;
  if (Error failure = readCount(value, "cores", subject, kind.cores))
    return failure;
  if (Error failure = readDriver(value, subject, kind.driver))
    return failure;
  if (Error failure = readChip(value, subject, kind))
    return failure;
  if (std::string reason = whyNotCuda(kind); kind.driver == "cuda" && !reason.empty())
    return value.find("driver")->error(subject + " " + reason);
  return Error::success();
}

//===-- hosts -------------------------------------------------------------------------------------------------===//

/// "between: [0, 1]".
static Error readPair(const YamlValue &between, const LinkSpec &link, HostSpec &host) {
  PairSpec pair{0, 0, link};
  unsigned *ends[] = {&pair.first, &pair.second};
  if (between.items.size() != 2)
    return between.error("a link of a host expects two devices, got " + Twine(between.items.size()));
  for (auto [end, item] : zip(ends, between.items))
    if (item.kind != YamlValue::Kind::Text || !to_integer(item.text, *end, 10) || *end >= host.numDevices())
      return item.error("a link of a host expects devices from 0 to " + Twine(host.numDevices() - 1) +
                        (item.text.empty() ? std::string() : ", got \"" + item.text + "\""));
  if (pair.first > pair.second)
    std::swap(pair.first, pair.second);
  if (pair.first == pair.second)
    return between.error("a link of a host expects two different devices, got " + Twine(pair.first) + " twice");
  for (const PairSpec &other : host.pairs)
    if (other.first == pair.first && other.second == pair.second)
      return between.error("a host expects one link between two devices, got another between " + Twine(pair.first) +
                           " and " + Twine(pair.second));
  host.pairs.push_back(pair);
  return Error::success();
}

static Error readHostLink(const YamlValue &item, HostSpec &host) {
  if (Error failure = item.expect(YamlValue::Kind::Map, "a link"))
    return failure;
  if (Error failure = item.expectKeys({"between", "bandwidth", "latency", "combine", "start"}, "a link"))
    return failure;
  auto between = requireKey(item, "between", "a link");
  if (!between)
    return between.takeError();
  bool isPair = (*between)->kind == YamlValue::Kind::List;
  if (!isPair && (*between)->text != "devices")
    return (*between)->error("a link of a host expects \"between: devices\" or two of them as in \"between: [0, 1]\"" +
                             ((*between)->text.empty() ? std::string() : ", got \"" + (*between)->text + "\""));
  LinkSpec link;
  if (Error failure = readLink(item, "a link", link))
    return failure;
  if (isPair)
    return readPair(**between, link, host);
  if (host.link)
    return (*between)->error("a host expects one link between its devices, got another");
  host.link = link;
  return Error::success();
}

static Error readLinks(const YamlValue &value, HostSpec &host) {
  const YamlValue *list = value.find("links");
  if (!list)
    return Error::success();
  if (Error failure = list->expect(YamlValue::Kind::List, "links"))
    return failure;
  for (const YamlValue &item : list->items)
    if (Error failure = readHostLink(item, host))
      return failure;
  return Error::success();
}

static Error readSwitch(const YamlValue &item, HostSpec &host) {
  if (Error failure = item.expect(YamlValue::Kind::Map, "a switch"))
    return failure;
  if (Error failure =
          item.expectKeys({"count", "devices", "bandwidth", "latency", "combine", "start", "up"}, "a switch"))
    return failure;
  SwitchSpec spec;
  unsigned count = 1;
  if (Error failure = readCount(item, "count", "a switch's", count))
    return failure;
  if (auto devices = requireKey(item, "devices", "a switch"); !devices)
    return devices.takeError();
  if (Error failure = readCount(item, "devices", "a switch's", spec.devices))
    return failure;
  if (Error failure = readLink(item, "a switch", spec.link))
    return failure;
  spec.up = spec.link;
  if (const YamlValue *up = item.find("up")) {
    if (Error failure = up->expect(YamlValue::Kind::Map, "a switch's up"))
      return failure;
    if (Error failure = up->expectKeys({"bandwidth", "latency", "combine", "start"}, "a switch's up"))
      return failure;
    if (Error failure = readLink(*up, "a switch's up", spec.up))
      return failure;
  }
  if (host.switches.size() + count > mostSwitches)
    return item.error("a host expects at most " + Twine(mostSwitches) + " switches, got more");
  host.switches.insert(host.switches.end(), count, spec);
  return Error::success();
}

static Error readSwitches(const YamlValue &value, HostSpec &host) {
  const YamlValue *list = value.find("switches");
  if (!list)
    return Error::success();
  if (Error failure = list->expect(YamlValue::Kind::List, "switches"))
    return failure;
  uint64_t devices = 0;
  for (const YamlValue &item : list->items)
    if (Error failure = readSwitch(item, host))
      return failure;
  for (const SwitchSpec &spec : host.switches)
    devices += spec.devices;
  if (!host.switches.empty() && devices != host.numDevices())
    return list->error("switches of a host expect together its " + Twine(host.numDevices()) + " devices, got " +
                       Twine(devices));
  return Error::success();
}

static Error readNetwork(const YamlValue &value, std::optional<NetworkSpec> &target) {
  const YamlValue *network = value.find("network");
  if (!network)
    return Error::success();
  if (Error failure = network->expect(YamlValue::Kind::Map, "\"network\""))
    return failure;
  if (Error failure = network->expectKeys({"bandwidth", "latency", "combine", "start", "ports"}, "\"network\""))
    return failure;
  NetworkSpec &spec = target.emplace();
  if (Error failure = readLink(*network, "\"network\"", spec.link))
    return failure;
  return readCount(*network, "ports", "\"network\"", spec.ports);
}

/// `numBefore`: devices of the machine before these.
static Error readDevices(const YamlValue &list, uint64_t numBefore, const Machine &machine, HostSpec &host) {
  if (Error failure = list.expect(YamlValue::Kind::List, "a host's devices"))
    return failure;
  for (const YamlValue &item : list.items) {
    if (Error failure = item.expect(YamlValue::Kind::Map, "a host's device"))
      return failure;
    if (Error failure = item.expectKeys({"kind", "count"}, "a host's device"))
      return failure;
    auto kind = requireKey(item, "kind", "a host's device");
    if (!kind)
      return kind.takeError();
    if (!machine.kinds.contains((*kind)->text))
      return (*kind)->error("a host's device expects a kind of \"device_kinds\", got \"" + (*kind)->text + "\"");
    HostSpec::Devices &devices = host.devices.emplace_back();
    devices.kind = (*kind)->text;
    if (Error failure = readCount(item, "count", "a host's device", devices.count))
      return failure;
    if (numBefore + uint64_t(host.count) * host.numDevices() > mostDevices)
      return item.error("a machine expects at most " + Twine(mostDevices) + " devices, got more");
  }
  return Error::success();
}

static Error readHost(const YamlValue &value, uint64_t numDevices, const Machine &machine, HostSpec &host) {
  if (Error failure = value.expect(YamlValue::Kind::Map, "a host"))
    return failure;
  if (Error failure = value.expectKeys(
          {"count", "zone", "cores", "memory", "price", "devices", "links", "switches", "network"}, "a host"))
    return failure;
  if (Error failure = readCount(value, "count", "a host's", host.count))
    return failure;
  if (Error failure = readZone(value, host))
    return failure;
  if (Error failure = readCount(value, "cores", "a host's", host.cores))
    return failure;
  if (Error failure = readQuantity(value, "memory", sizeUnits, "a host's", host.memory))
    return failure;
  if (Error failure = readQuantity(value, "price", priceUnits, "a host's", host.price))
    return failure;
  auto devices = requireKey(value, "devices", "a host");
  if (!devices)
    return devices.takeError();
  if (Error failure = readDevices(**devices, numDevices, machine, host))
    return failure;
  if (Error failure = readLinks(value, host))
    return failure;
  if (Error failure = readSwitches(value, host))
    return failure;
  return readNetwork(value, host.network);
}

static Error readHosts(const YamlValue &hosts, Machine &machine) {
  if (Error failure = hosts.expect(YamlValue::Kind::List, "\"hosts\""))
    return failure;
  uint64_t numHosts = 0, numDevices = 0;
  for (const YamlValue &value : hosts.items) {
    HostSpec host;
    if (Error failure = readHost(value, numDevices, machine, host))
      return failure;
    numHosts += host.count;
    numDevices += uint64_t(host.count) * host.numDevices();
    if (numHosts > mostDevices)
      return value.error("a machine expects at most " + Twine(mostDevices) + " hosts, got more");
    machine.hosts.push_back(std::move(host));
  }
  if (!numDevices)
    return hosts.error("\"hosts\" expects at least one device, found none");
  return Error::success();
}

/// `calibration: { step: 1.07, steps: 3 }`.
static Error readCalibration(const YamlValue &root, StepCalibration &calibration) {
  const YamlValue *value = root.find("calibration");
  if (!value)
    return Error::success();
  if (Error failure = value->expect(YamlValue::Kind::Map, "\"calibration\""))
    return failure;
  if (Error failure = value->expectKeys({"step", "steps"}, "\"calibration\""))
    return failure;
  if (auto step = requireKey(*value, "step", "\"calibration\""); !step)
    return step.takeError();
  if (Error failure = readPositive(*value, "step", noUnit, "\"calibration\"", calibration.step))
    return failure;
  return readCount(*value, "steps", "\"calibration\"", calibration.steps);
}

Expected<Machine> readMachine(const YamlValue &root, StringRef name) {
  if (Error failure = root.expect(YamlValue::Kind::Map, "a machine file"))
    return failure;
  if (Error failure = root.expectKeys({"name", "device_kinds", "hosts", "network", "links", "executor", "calibration"},
                                      "a machine file"))
    return failure;
  Machine machine;
  machine.name = name.str();
  if (const YamlValue *given = root.find("name")) {
    if (Error failure = given->expect(YamlValue::Kind::Text, "\"name\""))
      return failure;
    machine.name = given->text;
  }
  if (const YamlValue *kinds = root.find("device_kinds")) {
    if (Error failure = kinds->expect(YamlValue::Kind::Map, "\"device_kinds\""))
      return failure;
    for (auto &[kind, value] : kinds->entries)
      if (Error failure = readKind(kind, value, machine))
        return failure;
  }
  auto hosts = requireKey(root, "hosts", "a machine file");
  if (!hosts)
    return hosts.takeError();
  if (Error failure = readHosts(**hosts, machine))
    return failure;
  if (Error failure = readNetwork(root, machine.network))
    return failure;
  if (Error failure = readZoneLinks(root, machine))
    return failure;
  addDevices(machine);
  if (const YamlValue *executor = root.find("executor")) {
    auto read = readExecutor(*executor);
    if (!read)
      return read.takeError();
    machine.executor = *read;
  }
  if (Error failure = readCalibration(root, machine.calibration))
    return failure;
  return machine;
}

Expected<Machine> parseMachineFile(StringRef text, StringRef file) {
  Expected<YamlValue> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  return readMachine(*root, file);
}

Expected<Machine> readMachineFile(StringRef path) {
  Expected<std::string> text = readTextFile(path);
  if (!text)
    return text.takeError();
  return parseMachineFile(*text, path);
}

} // namespace cleave
