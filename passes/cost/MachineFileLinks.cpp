// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads links: what all have, and which zones they are between.

#include "passes/cost/MachineFileLinks.h"

#include "llvm/ADT/StringExtras.h"

#include <set>
#include <tuple>

using namespace llvm;

namespace cleave {

/// As readQuantity, for what is divided by.
Error readPositive(const YamlValue &map, StringRef key, ArrayRef<Unit> units, StringRef subject, double &target) {
  if (Error failure = readQuantity(map, key, units, subject, target))
    return failure;
  const YamlValue *value = map.find(key);
  if (value && !(target > 0))
    return value->error(subject + " " + key + " expects more than 0, got \"" + value->text + "\"");
  return Error::success();
}

/// Bandwidth and latency must be there.
Error readLink(const YamlValue &value, StringRef subject, LinkSpec &link) {
  if (Error failure = readPositive(value, "combine", bandwidthUnits, subject, link.combine))
    return failure;
  if (Error failure = readPositive(value, "bandwidth", bandwidthUnits, subject, link.bandwidth))
    return failure;
  if (Error failure = readQuantity(value, "latency", timeUnits, subject, link.latency))
    return failure;
  if (Error failure = readQuantity(value, "start", timeUnits, subject, link.start))
    return failure;
  for (StringRef key : {"bandwidth", "latency"})
    if (auto found = requireKey(value, key, subject); !found)
      return found.takeError();
  return Error::success();
}

Error readWayFromHost(const YamlValue &kind, const std::string &subject, LinkSpec &host) {
  const YamlValue *value = kind.find("host");
  if (!value)
    return Error::success();
  std::string what = "the way from the host of " + subject;
  if (Error failure = value->expect(YamlValue::Kind::Map, what))
    return failure;
  if (Error failure = value->expectKeys({"bandwidth", "latency"}, what))
    return failure;
  return readLink(*value, what, host);
}

//===-- zones -------------------------------------------------------------------------------------------------===//

Error readZone(const YamlValue &value, HostSpec &host) {
  const YamlValue *zone = value.find("zone");
  if (!zone)
    return Error::success();
  if (zone->kind != YamlValue::Kind::Text || zone->text.empty())
    return zone->error("a host's zone expects a name");
  host.zone = zone->text;
  return Error::success();
}

static Error readZoneName(const YamlValue &value, const std::set<std::string> &zones, std::string &target) {
  if (value.kind != YamlValue::Kind::Text || !zones.contains(value.text))
    return value.error("a link of the machine expects a zone of its hosts (" + join(zones, ", ") + ")" +
                       (value.text.empty() ? std::string() : ", got \"" + value.text + "\""));
  target = value.text;
  return Error::success();
}

/// "between: [a, b]", or "from: a, to: b".
static Error readEnds(const YamlValue &item, const std::set<std::string> &zones, ZoneLinkSpec &link) {
  const YamlValue *between = item.find("between"), *from = item.find("from"), *to = item.find("to");
  link.bothWays = between;
  if (between ? from || to : !from || !to)
    return item.error("a link of the machine expects two zones as in \"between: [a, b]\", or for one direction "
                      "\"from: a, to: b\"");
  if (between && (between->kind != YamlValue::Kind::List || between->items.size() != 2))
    return between->error(
        "a link of the machine expects two zones as in \"between: [a, b]\", got " +
        (between->kind == YamlValue::Kind::List ? std::to_string(between->items.size()) : "\"" + between->text + "\""));
  if (Error failure = readZoneName(between ? between->items[0] : *from, zones, link.from))
    return failure;
  if (Error failure = readZoneName(between ? between->items[1] : *to, zones, link.to))
    return failure;
  if (!between && link.from == link.to)
    return to->error("a link of one direction expects two zones, got \"" + link.to + "\" twice; within a zone give " +
                     "\"between: [" + link.to + ", " + link.to + "]\"");
  return Error::success();
}

/// What a link is for, where another for the same would say something else: a direction, or both.
static std::tuple<bool, std::string, std::string> purposeOf(const ZoneLinkSpec &link) {
  bool turned = link.bothWays && link.to < link.from;
  return {link.bothWays, turned ? link.to : link.from, turned ? link.from : link.to};
}

static Error readShared(const YamlValue &item, bool &target) {
  const YamlValue *shared = item.find("shared");
  if (!shared)
    return Error::success();
  if (shared->kind != YamlValue::Kind::Text || (shared->text != "true" && shared->text != "false"))
    return shared->error("a link of the machine shared expects true or false" +
                         (shared->text.empty() ? std::string() : ", got \"" + shared->text + "\""));
  target = shared->text == "true";
  return Error::success();
}

static Expected<ZoneLinkSpec> readZoneLink(const YamlValue &item, const std::set<std::string> &zones) {
  StringRef subject = "a link of the machine";
  if (Error failure = item.expect(YamlValue::Kind::Map, subject))
    return failure;
  if (Error failure =
          item.expectKeys({"between", "from", "to", "bandwidth", "latency", "combine", "start", "shared"}, subject))
    return failure;
  ZoneLinkSpec link;
  if (Error failure = readEnds(item, zones, link))
    return failure;
  if (Error failure = readLink(item, subject, link.link))
    return failure;
  if (Error failure = readShared(item, link.isShared))
    return failure;
  return link;
}

Error readZoneLinks(const YamlValue &root, Machine &machine) {
  const YamlValue *list = root.find("links");
  if (!list)
    return Error::success();
  if (Error failure = list->expect(YamlValue::Kind::List, "\"links\""))
    return failure;
  std::set<std::string> zones;
  for (const HostSpec &host : machine.hosts)
    if (!host.zone.empty())
      zones.insert(host.zone);
  if (zones.empty() && !list->items.empty())
    return list->error("\"links\" between hosts expect hosts with a \"zone\", found none");
  std::set<std::tuple<bool, std::string, std::string>> known;
  for (const YamlValue &item : list->items) {
    auto link = readZoneLink(item, zones);
    if (!link)
      return link.takeError();
    if (!known.insert(purposeOf(*link)).second)
      return item.error("a machine expects one link " + Twine(link->bothWays ? "between \"" : "from \"") + link->from +
                        (link->bothWays ? "\" and \"" : "\" to \"") + link->to + "\", got another");
    machine.links.push_back(std::move(*link));
  }
  return Error::success();
}

} // namespace cleave
