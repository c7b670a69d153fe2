// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The hosts of a machine in their network, for Topology: which links a transfer crosses, by numbers, and what transfers
// that happen at once leave each other.

#ifndef CLEAVE_PASSES_COST_MACHINEGRAPH_H
#define CLEAVE_PASSES_COST_MACHINEGRAPH_H

#include "passes/cost/HostShape.h"
#include "passes/cost/Topology.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace cleave {

class MachineGraph {
public:
  explicit MachineGraph(const Machine &machine);

  /// A device's memory, read and written.
  LinkSpec memory(unsigned device) const;
  unsigned hostOf(unsigned device) const { return hosts[device]; }
  /// The place of a device in its host.
  unsigned localOf(unsigned device) const { return device - firstDevices[hosts[device]]; }
  HostShape &shapeOf(unsigned device) const { return *shapes[shapeNumberOf(device)]; }
  /// Hosts of one number are alike.
  unsigned shapeNumberOf(unsigned device) const { return shapeOfHost[hosts[device]]; }
  /// Tells a device's switch from all others, where its host has switches.
  size_t switchOf(unsigned device) const {
    return firstLinks[hosts[device]] + shapeOf(device).switchOf(localOf(device));
  }
  /// Tells zones between which there are links apart; 0: there are none of this host.
  unsigned zoneOf(unsigned device) const { return zoneOfShape[shapeNumberOf(device)]; }
  /// Numbers of links that found transfers cross are below this.
  size_t numLinks() const { return nextLink; }

  /// A direction of what lies between the hosts of two zones.
  struct ZoneLink {
    LinkSpec link;
    bool isShared = false;
    size_t number = 0; ///< Where it is shared.
  };

  /// The way of a transfer while there is no other.
  struct Flow {
    unsigned from, to;
    LinkSpec link;
    const Route *out = nullptr; ///< to the other device, or to the own host
    const Route *in = nullptr;  ///< from the other host
    /// Between the hosts, besides their ports.
    const ZoneLink *across = nullptr;
    size_t acrossNumber = 0;
  };
  Flow find(unsigned from, unsigned to);
  /// Visits the links that a transfer crosses, each with its number and its bandwidth for all that cross it.
  void forEachLink(const Flow &flow, llvm::function_ref<void(size_t, double)> visit) const;

private:
  void addZoneLinks(const Machine &machine);
  size_t numberBetween(const ZoneLink &link, unsigned host, unsigned other);
  /// The number of a direction of a link of a device or its host.
  size_t linkOf(unsigned device, const Hop &hop) const;

  std::vector<std::unique_ptr<HostShape>> shapes;
  std::vector<unsigned> hosts;                     ///< by device
  std::vector<unsigned> shapeOfHost, firstDevices; ///< by host
  std::vector<size_t> firstLinks = {0};            ///< by host, and the end
  size_t nextLink = 0;
  std::vector<unsigned> zoneOfShape;
  std::map<std::pair<unsigned, unsigned>, ZoneLink> zoneLinks; ///< by zones
  /// Where each two hosts have a link of their own: of those that a transfer was found for, as all would be too many.
  std::map<std::pair<unsigned, unsigned>, size_t> linksBetween;
};

/// Transfers that happen at once. A link serves those that cross it by what they bring.
class TransferSet {
public:
  explicit TransferSet(MachineGraph &graph) : graph(graph) {}

  bool isEmpty() const { return transfers.empty(); }
  /// `share`: the part of what every device passes on that goes this way.
  void add(unsigned from, unsigned to, double share = 1) { transfers.push_back({graph.find(from, to), share}); }
  /// What every device can pass on in a second, and the largest latency.
  LinkSpec slowest() const;

private:
  struct Transfer {
    MachineGraph::Flow flow;
    double share;
  };

  MachineGraph &graph;
  std::vector<Transfer> transfers;
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MACHINEGRAPH_H
