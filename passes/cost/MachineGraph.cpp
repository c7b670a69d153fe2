// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins hosts, and divides links among the transfers that cross them.

#include "passes/cost/MachineGraph.h"

using namespace llvm;

namespace cleave {

MachineGraph::MachineGraph(const Machine &machine) {
  auto bandwidthOf = [&](StringRef kind) {
    auto found = machine.kinds.find(kind.str());
    return found == machine.kinds.end() ? 0 : found->second.bandwidth;
  };
  auto addHost = [&](unsigned numDevices) {
    firstDevices.push_back(hosts.size());
    shapeOfHost.push_back(shapes.size() - 1);
    hosts.insert(hosts.end(), numDevices, firstDevices.size() - 1);
    // Two ports a device, its switches and the network; two directions each.
    firstLinks.push_back(firstLinks.back() + 2 * (2 * numDevices + shapes.back()->numSwitches() + 1));
  };
  for (const HostSpec &spec : machine.hosts) {
    std::vector<double> bandwidths;
    for (const HostSpec::Devices &devices : spec.devices)
      bandwidths.insert(bandwidths.end(), devices.count, bandwidthOf(devices.kind));
    shapes.push_back(std::make_unique<HostShape>(spec, bandwidths, spec.network ? spec.network : machine.network));
    for (unsigned i = 0; i < spec.count; ++i)
      addHost(bandwidths.size());
  }
  if (machine.hosts.empty()) {
    std::vector<double> bandwidths;
    for (const DeviceSpec &device : machine.devices)
      bandwidths.push_back(bandwidthOf(device.kind));
    shapes.push_back(std::make_unique<HostShape>(HostSpec(), bandwidths, machine.network));
    addHost(bandwidths.size());
  }
  nextLink = firstLinks.back();
  addZoneLinks(machine);
}

/// Links of one direction go before those of both.
void MachineGraph::addZoneLinks(const Machine &machine) {
  zoneOfShape = zoneNumbers(machine);
  zoneOfShape.resize(shapes.size());
  std::map<StringRef, unsigned> zones;
  for (auto [host, zone] : zip(machine.hosts, zoneOfShape))
    zones.try_emplace(host.zone, zone);
  for (bool bothWays : {false, true})
    for (const ZoneLinkSpec &spec : machine.links) {
      if (spec.bothWays != bothWays)
        continue;
      unsigned from = zones.at(spec.from), to = zones.at(spec.to);
      for (auto ends : {std::pair(from, to), std::pair(to, from)})
        if (ends == std::pair(from, to) || bothWays)
          if (zoneLinks.try_emplace(ends, ZoneLink{spec.link, spec.isShared, nextLink}).second)
            nextLink += spec.isShared;
    }
}

LinkSpec MachineGraph::memory(unsigned device) const {
  double bandwidth = shapeOf(device).memoryBandwidth(localOf(device));
  return {bandwidth ? bandwidth / 2 : unknownDevice.bandwidth, 0};
}

MachineGraph::Flow MachineGraph::find(unsigned from, unsigned to) {
  HostShape &shape = shapeOf(from), &other = shapeOf(to);
  unsigned local = localOf(from), otherLocal = localOf(to);
  if (from == to)
    return {from, to, memory(from)};
  if (hosts[from] == hosts[to]) {
    const Route &route = shape.between(local, otherLocal);
    const LinkSpec *pair = shape.pair(local, otherLocal);
    auto rank = [](const LinkSpec &link) { return std::pair(link.bandwidth, -link.latency); };
    if (pair && (!shape.hasCommonLinks() || rank(*pair) >= rank(route.link)))
      return {from, to, *pair};
    return {from, to, route.link, &route};
  }
  const LinkSpec &mine = shape.network().link, &theirs = other.network().link;
  const Route &out = shape.upwards(local), &in = other.downwards(otherLocal);
  Flow flow{from, to, slowerOf(slowerOf(mine, theirs), slowerOf(out.link, in.link)), &out, &in};
  double latency = (mine.latency + theirs.latency) / 2;
  if (auto found = zoneLinks.find({zoneOf(from), zoneOf(to)}); found != zoneLinks.end()) {
    flow.across = &found->second;
    flow.acrossNumber = numberBetween(found->second, hosts[from], hosts[to]);
    flow.link = slowerOf(flow.link, found->second.link);
    latency = found->second.link.latency;
  }
  flow.link.latency = out.link.latency + in.link.latency + latency;
  return flow;
}

size_t MachineGraph::numberBetween(const ZoneLink &link, unsigned host, unsigned other) {
  if (link.isShared)
    return link.number;
  auto [found, isNew] = linksBetween.try_emplace({host, other}, nextLink);
  nextLink += isNew;
  return found->second;
}

size_t MachineGraph::linkOf(unsigned device, const Hop &hop) const {
  size_t index = hop.owner == Hop::Host ? hop.link : shapeOf(device).numSwitches() + 2 * localOf(device) + hop.link;
  return firstLinks[hosts[device]] + 2 * (index + 1) + hop.upwards;
}

void MachineGraph::forEachLink(const Flow &flow, function_ref<void(size_t, double)> visit) const {
  if (flow.out)
    for (const Hop &hop : flow.out->hops)
      visit(linkOf(hop.owner == Hop::Receiver ? flow.to : flow.from, hop), hop.bandwidth);
  if (!flow.in)
    return;
  for (const Hop &hop : flow.in->hops)
    visit(linkOf(flow.to, hop), hop.bandwidth);
  // The network is a host's first link.
  for (unsigned device : {flow.from, flow.to}) {
    const NetworkSpec &network = shapeOf(device).network();
    visit(firstLinks[hosts[device]] + (device == flow.from), network.link.bandwidth * network.ports);
  }
  if (flow.across)
    visit(flow.acrossNumber, flow.across->link.bandwidth);
}

//===-- transfers at once -------------------------------------------------------------------------------------===//

LinkSpec TransferSet::slowest() const {
  LinkSpec result{unlimited, 0};
  std::vector<double> loads(graph.numLinks()); // by link and direction
  for (const auto &[flow, share] : transfers)
    graph.forEachLink(flow, [&, share = share](size_t link, double) { loads[link] += share; });
  for (const auto &[flow, share] : transfers) {
    result = slowerOf(result, {flow.link.bandwidth / share, flow.link.latency, flow.link.combine, flow.link.start});
    graph.forEachLink(flow, [&](size_t link, double bandwidth) {
      result.bandwidth = std::min(result.bandwidth, bandwidth / loads[link]);
    });
  }
  return result;
}

} // namespace cleave
