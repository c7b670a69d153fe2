// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes machine files, in the order in which people read them: a line a property, a map in braces for small things.

#include "passes/cost/MachineFile.h"
#include "passes/cost/MachineFileLinks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace cleave {

/// A text that YAML reads back as it is.
static std::string quoted(StringRef text) {
  if (!text.empty() && all_of(text, [](char c) { return isAlnum(c) || c == '-' || c == '_' || c == '.'; }))
    return text.str();
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? "''" : std::string(1, c);
  return result + "'";
}

static std::string linkText(const LinkSpec &link) {
  std::string text = "bandwidth: " + printQuantity(link.bandwidth, bandwidthUnits) +
                     ", latency: " + printQuantity(link.latency, timeUnits);
  if (link.combine)
    text += ", combine: " + printQuantity(link.combine, bandwidthUnits);
  return link.start ? text + ", start: " + printQuantity(link.start, timeUnits) : text;
}

static std::string networkText(const NetworkSpec &network) {
  std::string ports = network.ports == 1 ? "" : ", ports: " + std::to_string(network.ports);
  return "network: { " + linkText(network.link) + ports + " }\n";
}

std::string zoneLinkText(const ZoneLinkSpec &link) {
  std::string from = quoted(link.from), to = quoted(link.to);
  return "{ " + (link.bothWays ? "between: [" + from + ", " + to + "]" : "from: " + from + ", to: " + to) + ", " +
         linkText(link.link) + (link.isShared ? ", shared: true }" : " }");
}

static void writeCurve(StringRef name, const EfficiencyCurve &curve, raw_ostream &out) {
  out << "      " << name << ":";
  if (curve.points.size() == 1 && curve.points[0].size == 1 && curve.points[0].share <= 1) {
    out << " " << printQuantity(curve.points[0].share, noUnit) << "\n";
    return;
  }
  out << "\n";
  bool byWork = isByWork(name);
  for (const EfficiencyCurve::Point &point : curve.points)
    out << "        - { at: "
        << printQuantity(point.size, byWork ? ArrayRef<Unit>(workUnits) : ArrayRef<Unit>(sizeUnits))
        << ", share: " << printQuantity(point.share, noUnit) << " }\n";
}

static void writeTiles(StringRef name, const TileModel &model, raw_ostream &out) {
  out << "      " << name << ":\n        units: " << model.units
      << "\n        sustained: " << printQuantity(model.sustained, noUnit) << "\n        tiles:\n";
  for (const TileModel::Tile &tile : model.tiles)
    out << "          - { rows: " << printQuantity(tile.rows, noUnit)
        << ", columns: " << printQuantity(tile.columns, noUnit) << ", share: " << printQuantity(tile.share, noUnit)
        << " }\n";
  for (auto [key, curve] :
       {std::pair("alignment", &model.alignment), {"depth", &model.depth}, {"width", &model.width}}) {
    if (curve->points.empty())
      continue;
    bool inBytes = curve == &model.alignment;
    out << "        " << key << ":\n";
    for (const EfficiencyCurve::Point &point : curve->points)
      out << "          - { at: "
          << printQuantity(point.size, inBytes ? ArrayRef<Unit>(sizeUnits) : ArrayRef<Unit>(noUnit))
          << ", share: " << printQuantity(point.share, noUnit) << " }\n";
  }
}

static void writeKind(StringRef name, const DeviceKind &kind, raw_ostream &out) {
  DeviceKind none;
  out << "  " << quoted(name) << ":\n";
  // A kind of which nothing is said is still a map.
  if (kind.driver != none.driver || kind == none)
    out << "    driver: " << kind.driver << "\n";
  if (!kind.chip.empty())
    out << "    chip: " << kind.chip << "\n";
  if (kind.cores != none.cores)
    out << "    cores: " << kind.cores << "\n";
  if (kind.memory)
    out << "    memory: " << printQuantity(static_cast<double>(kind.memory), sizeUnits) << "\n";
  if (kind.bandwidth)
    out << "    bandwidth: " << printQuantity(kind.bandwidth, bandwidthUnits) << "\n";
  if (!kind.peak.empty()) {
    out << "    peak: { ";
    interleaveComma(kind.peak, out,
                    [&](const auto &entry) { out << entry.first << ": " << printQuantity(entry.second, speedUnits); });
    out << " }\n";
  }
  if (kind.launch)
    out << "    launch: " << printQuantity(kind.launch, timeUnits) << "\n";
  if (kind.step)
    out << "    step: " << printQuantity(kind.step, timeUnits) << "\n";
  if (kind.host.bandwidth)
    out << "    host: { bandwidth: " << printQuantity(kind.host.bandwidth, bandwidthUnits)
        << ", latency: " << printQuantity(kind.host.latency, timeUnits) << " }\n";
  if (kind.price)
    out << "    price: " << printQuantity(kind.price, priceUnits) << "\n";
  if (kind.overlapSlowdown != none.overlapSlowdown)
    out << "    overlap_slowdown: " << printQuantity(kind.overlapSlowdown, noUnit) << "\n";
  if (kind.neighbourSlowdown != none.neighbourSlowdown)
    out << "    neighbour_slowdown: " << printQuantity(kind.neighbourSlowdown, noUnit) << "\n";
  if (kind.efficiency.empty() && kind.tiles.empty())
    return;
  out << "    efficiency:\n";
  for (auto &[products, model] : kind.tiles)
    writeTiles(products, model, out);
  for (auto &[costClass, curve] : kind.efficiency)
    writeCurve(costClass, curve, out);
}

static void writeHost(const HostSpec &host, raw_ostream &out) {
  out << "  - count: " << host.count << "\n";
  if (!host.zone.empty())
    out << "    zone: " << quoted(host.zone) << "\n";
  if (host.cores)
    out << "    cores: " << host.cores << "\n";
  if (host.memory)
    out << "    memory: " << host.memory << " B\n";
  if (host.price)
    out << "    price: " << printQuantity(host.price, priceUnits) << "\n";
  out << "    devices: [";
  interleaveComma(host.devices, out, [&](const HostSpec::Devices &devices) {
    out << "{ kind: " << quoted(devices.kind) << ", count: " << devices.count << " }";
  });
  out << "]\n";
  if (host.link || !host.pairs.empty())
    out << "    links:\n";
  if (host.link)
    out << "      - { between: devices, " << linkText(*host.link) << " }\n";
  for (const PairSpec &pair : host.pairs)
    out << "      - { between: [" << pair.first << ", " << pair.second << "], " << linkText(pair.link) << " }\n";
  if (!host.switches.empty())
    out << "    switches:\n";
  for (ArrayRef<SwitchSpec> rest = host.switches; !rest.empty();) {
    const SwitchSpec &first = rest.front();
    auto alike = rest.take_while([&](const SwitchSpec &other) { return other == first; });
    out << "      - { count: " << alike.size() << ", devices: " << first.devices << ", " << linkText(first.link)
        << ", up: { " << linkText(first.up) << " } }\n";
    rest = rest.drop_front(alike.size());
  }
  if (host.network)
    out << "    " << networkText(*host.network);
}

void writeMachineFile(const Machine &machine, raw_ostream &out, StringRef comment) {
  SmallVector<StringRef> lines;
  comment.split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef line : lines)
    out << "# " << line << "\n";
  out << "name: " << quoted(machine.name) << "\n";
  if (!machine.kinds.empty())
    out << "device_kinds:\n";
  for (auto &[name, kind] : machine.kinds)
    writeKind(name, kind, out);
  out << "hosts:\n";
  for (const HostSpec &host : machine.hosts)
    writeHost(host, out);
  if (machine.network)
    out << networkText(*machine.network);
  if (!machine.links.empty())
    out << "links:\n";
  for (const ZoneLinkSpec &link : machine.links)
    out << "  - " << zoneLinkText(link) << "\n";
  if (machine.executor != Executor())
    out << "executor: " << executorText(machine.executor) << "\n";
  if (const StepCalibration &calibration = machine.calibration; calibration != StepCalibration())
    out << "calibration: { step: " << printQuantity(calibration.step, noUnit)
        << (calibration.steps ? ", steps: " + std::to_string(calibration.steps) : "") << " }\n";
}

} // namespace cleave
