// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads machine files: quantities with units, device kinds, hosts, the network.

#include "passes/cost/MachineFile.h"

#include "passes/cost/YamlValue.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace cleave {

//===-- quantities --------------------------------------------------------------------------------------------===//

namespace {

struct Unit {
  StringLiteral name;
  double factor;
};

constexpr Unit sizeUnits[] = {{"B", 1},           {"kB", 1e3},           {"MB", 1e6},
                              {"GB", 1e9},        {"TB", 1e12},          {"KiB", 1024.0},
                              {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
constexpr Unit bandwidthUnits[] = {{"B/s", 1},      {"kB/s", 1e3},           {"MB/s", 1e6}, {"GB/s", 1e9},
                                   {"TB/s", 1e12},  {"GiB/s", 1073741824.0}, {"Kb/s", 125}, {"Mb/s", 125e3},
                                   {"Gb/s", 125e6}, {"Tb/s", 125e9}};
constexpr Unit speedUnits[] = {{"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
constexpr Unit timeUnits[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
/// Shares and counts have none.
constexpr Unit noUnit[] = {{"", 1}};

} // namespace

/// A finite number that is not negative, in one of `units`.
static Expected<double> parseQuantity(const YamlValue &value, ArrayRef<Unit> units, StringRef subject) {
  if (Error failure = value.expect(YamlValue::Kind::Text, subject))
    return failure;
  StringRef text = StringRef(value.text).trim();
  size_t end = text.find_first_of(" \t");
  StringRef number = text.take_front(end), unit = end == StringRef::npos ? StringRef() : text.drop_front(end).trim();
  double parsed = 0;
  if (!to_float(number, parsed) || !std::isfinite(parsed) || parsed < 0)
    return value.error(subject + " expects a finite number that is not negative, got \"" + value.text + "\"");
  for (const Unit &known : units)
    if (known.name == unit && std::isfinite(parsed * known.factor))
      return parsed * known.factor;
  SmallVector<StringRef> names;
  for (const Unit &known : units)
    names.push_back(known.name);
  return value.error(subject + " expects " +
                     (names == ArrayRef<StringRef>{""} ? "a number without unit"
                                                       : "a number, a space and a unit of " + join(names, ", ")) +
                     ", got \"" + value.text + "\"");
}

static Expected<unsigned> parseCount(const YamlValue &value, StringRef subject) {
  unsigned count = 0;
  if (value.kind != YamlValue::Kind::Text || !to_integer(value.text, count, 10) || count < 1 || count > mostDevices)
    return value.error(subject + " expects a whole number from 1 to " + Twine(mostDevices) +
                       (value.kind == YamlValue::Kind::Text ? ", got \"" + value.text + "\"" : std::string()));
  return count;
}

/// The value of a key that must be there.
static Expected<const YamlValue *> require(const YamlValue &map, StringRef key, StringRef subject) {
  if (const YamlValue *value = map.find(key))
    return value;
  return map.error(subject + " expects the key \"" + key + "\", found none");
}

/// Sets `target` from a key, if the map has it.
template <typename Number>
static Error readQuantity(const YamlValue &map, StringRef key, ArrayRef<Unit> units, StringRef subject,
                          Number &target) {
  const YamlValue *value = map.find(key);
  if (!value)
    return Error::success();
  Expected<double> quantity = parseQuantity(*value, units, (subject + " " + key).str());
  if (!quantity)
    return quantity.takeError();
  if (std::is_integral_v<Number> && *quantity >= 9e18)
    return value->error(subject + " " + key + " expects less than 9e18 bytes, got \"" + value->text + "\"");
  target = static_cast<Number>(*quantity);
  return Error::success();
}

/// As readQuantity, for every entry of a map.
static Error readQuantities(const YamlValue &map, StringRef key, ArrayRef<Unit> units, StringRef subject,
                            std::map<std::string, double> &target) {
  const YamlValue *values = map.find(key);
  if (!values)
    return Error::success();
  std::string inner = (subject + " " + key).str();
  if (Error failure = values->expect(YamlValue::Kind::Map, inner))
    return failure;
  for (auto &[name, value] : values->entries) {
    Expected<double> quantity = parseQuantity(value, units, inner + " " + name.text);
    if (!quantity)
      return quantity.takeError();
    target[name.text] = *quantity;
  }
  return Error::success();
}

/// Reads the counts that are there.
static Error readCount(const YamlValue &map, StringRef key, StringRef subject, unsigned &target) {
  const YamlValue *value = map.find(key);
  if (!value)
    return Error::success();
  Expected<unsigned> count = parseCount(*value, (subject + " " + key).str());
  if (!count)
    return count.takeError();
  target = *count;
  return Error::success();
}

//===-- sections ----------------------------------------------------------------------------------------------===//

static Error readKind(const YamlValue &name, const YamlValue &value, Machine &machine) {
  std::string subject = "device kind \"" + name.text + "\"";
  if (Error failure = value.expect(YamlValue::Kind::Map, subject))
    return failure;
  if (Error failure = value.expectKeys({"memory", "bandwidth", "peak", "efficiency", "driver", "cores"}, subject))
    return failure;
  DeviceKind &kind = machine.kinds[name.text];
  if (Error failure = readQuantity(value, "memory", sizeUnits, subject, kind.memory))
    return failure;
  if (Error failure = readQuantity(value, "bandwidth", bandwidthUnits, subject, kind.bandwidth))
    return failure;
  if (Error failure = readQuantities(value, "peak", speedUnits, subject, kind.peak))
    return failure;
  std::map<std::string, double> efficiency;
  if (Error failure = readQuantities(value, "efficiency", noUnit, subject, efficiency))
    return failure;
  for (auto &[share, part] : efficiency) {
    kind.efficiency[share].points = {{1, part}};
    if (part > 1)
      return value.find("efficiency")
          ->error(subject + " efficiency " + share + " expects at most 1, got " + Twine(std::to_string(part)));
  }
  if (Error failure = readCount(value, "cores", subject, kind.cores))
    return failure;
  if (const YamlValue *driver = value.find("driver")) {
    if (driver->kind != YamlValue::Kind::Text || (driver->text != "null" && driver->text != "cpu"))
      return driver->error(driver->text.empty()
                               ? Twine(subject + " driver expects null or cpu")
                               : Twine(subject + " driver expects null or cpu, got \"" + driver->text + "\""));
    kind.driver = driver->text;
  }
  return Error::success();
}

static Error readLink(const YamlValue &value, StringRef subject, LinkSpec &link) {
  if (Error failure = readQuantity(value, "bandwidth", bandwidthUnits, subject, link.bandwidth))
    return failure;
  return readQuantity(value, "latency", timeUnits, subject, link.latency);
}

static Error readLinks(const YamlValue &host, std::map<std::string, LinkSpec> &links) {
  const YamlValue *list = host.find("links");
  if (!list)
    return Error::success();
  if (Error failure = list->expect(YamlValue::Kind::List, "links"))
    return failure;
  for (const YamlValue &item : list->items) {
    if (Error failure = item.expect(YamlValue::Kind::Map, "a link"))
      return failure;
    if (Error failure = item.expectKeys({"between", "bandwidth", "latency"}, "a link"))
      return failure;
    auto between = require(item, "between", "a link");
    if (!between)
      return between.takeError();
    if ((*between)->text != "devices")
      return (*between)->error("a link of a host expects \"between: devices\", got \"" + (*between)->text + "\"");
    if (Error failure = readLink(item, "a link's", links[(*between)->text]))
      return failure;
  }
  return Error::success();
}

/// Appends the devices of one host.
static Error addDevices(const YamlValue &list, unsigned host, Machine &machine) {
  if (Error failure = list.expect(YamlValue::Kind::List, "a host's devices"))
    return failure;
  for (const YamlValue &item : list.items) {
    if (Error failure = item.expect(YamlValue::Kind::Map, "a host's device"))
      return failure;
    if (Error failure = item.expectKeys({"kind", "count"}, "a host's device"))
      return failure;
    auto kindName = require(item, "kind", "a host's device");
    if (!kindName)
      return kindName.takeError();
    auto kind = machine.kinds.find((*kindName)->text);
    if (kind == machine.kinds.end())
      return (*kindName)->error("a host's device expects a kind of \"device_kinds\", got \"" + (*kindName)->text +
                                "\"");
    unsigned count = 1;
    if (Error failure = readCount(item, "count", "a host's device", count))
      return failure;
    if (machine.devices.size() + count > mostDevices)
      return item.error("a machine expects at most " + Twine(mostDevices) + " devices, got more");
    for (unsigned i = 0; i < count; ++i)
      machine.devices.push_back({kind->first + "." + std::to_string(machine.devices.size()), kind->second.driver,
                                 kind->second.cores, kind->second.memory, kind->first, host});
  }
  return Error::success();
}

static Error readHosts(const YamlValue &hosts, Machine &machine) {
  if (Error failure = hosts.expect(YamlValue::Kind::List, "\"hosts\""))
    return failure;
  for (const YamlValue &value : hosts.items) {
    if (Error failure = value.expect(YamlValue::Kind::Map, "a host"))
      return failure;
    if (Error failure = value.expectKeys({"count", "devices", "links"}, "a host"))
      return failure;
    unsigned count = 1;
    if (Error failure = readCount(value, "count", "a host's", count))
      return failure;
    std::map<std::string, LinkSpec> links;
    if (Error failure = readLinks(value, links))
      return failure;
    auto devices = require(value, "devices", "a host");
    if (!devices)
      return devices.takeError();
    if (machine.hosts.size() + count > mostDevices)
      return value.error("a machine expects at most " + Twine(mostDevices) + " hosts, got more");
    for (unsigned i = 0; i < count; ++i) {
      machine.hosts.push_back(links);
      if (Error failure = addDevices(**devices, machine.hosts.size() - 1, machine))
        return failure;
    }
  }
  if (machine.devices.empty())
    return hosts.error("\"hosts\" expects at least one device, found none");
  return Error::success();
}

Expected<Machine> parseMachineFile(StringRef text, StringRef file) {
  Expected<YamlValue> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  if (Error failure = root->expect(YamlValue::Kind::Map, "a machine file"))
    return failure;
  if (Error failure = root->expectKeys({"name", "device_kinds", "hosts", "network"}, "a machine file"))
    return failure;
  Machine machine;
  machine.name = file.str();
  if (const YamlValue *name = root->find("name")) {
    if (Error failure = name->expect(YamlValue::Kind::Text, "\"name\""))
      return failure;
    machine.name = name->text;
  }
  if (const YamlValue *kinds = root->find("device_kinds")) {
    if (Error failure = kinds->expect(YamlValue::Kind::Map, "\"device_kinds\""))
      return failure;
    for (auto &[name, value] : kinds->entries)
      if (Error failure = readKind(name, value, machine))
        return failure;
  }
  auto hosts = require(*root, "hosts", "a machine file");
  if (!hosts)
    return hosts.takeError();
  if (Error failure = readHosts(**hosts, machine))
    return failure;
  if (const YamlValue *network = root->find("network")) {
    if (Error failure = network->expect(YamlValue::Kind::Map, "\"network\""))
      return failure;
    if (Error failure = network->expectKeys({"bandwidth", "latency"}, "\"network\""))
      return failure;
    if (Error failure = readLink(*network, "\"network\"", machine.network.emplace()))
      return failure;
  }
  return machine;
}

Expected<Machine> readMachineFile(StringRef path) {
  Expected<std::string> text = readTextFile(path);
  if (!text)
    return text.takeError();
  return parseMachineFile(*text, path);
}

} // namespace cleave
