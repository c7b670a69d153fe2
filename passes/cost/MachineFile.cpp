// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads machine files: quantities with units, device kinds, hosts, the network.

#include "passes/cost/MachineFile.h"

#include "passes/cost/Quantity.h"

using namespace llvm;

namespace cleave {

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
    auto between = requireKey(item, "between", "a link");
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
    auto kindName = requireKey(item, "kind", "a host's device");
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
    auto devices = requireKey(value, "devices", "a host");
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
  auto hosts = requireKey(*root, "hosts", "a machine file");
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
