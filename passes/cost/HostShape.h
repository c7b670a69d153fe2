// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A host as a graph of devices, switches and links, for Topology: paths are found once for each kind of host and place
// in it.

#ifndef CLEAVE_PASSES_COST_HOSTSHAPE_H
#define CLEAVE_PASSES_COST_HOSTSHAPE_H

#include "passes/cost/Machine.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <boost/graph/adjacency_list.hpp>
#include <limits>

namespace cleave {

inline constexpr double unlimited = std::numeric_limits<double>::infinity();
/// What Topology.h says of links about which a machine says nothing.
inline constexpr LinkSpec unknownDevice = {10e9, 5e-6};
inline constexpr NetworkSpec unknownNetwork = {{1.25e9, 50e-6}, 1};

/// One direction of a link on the way from one device to another.
struct Hop {
  enum Owner { Sender, Receiver, Host } owner = Host;
  /// Of a device: 0 to the common switch or the host, 1 to its switch. Of a host: its switch.
  unsigned link = 0;
  bool upwards = true; ///< Away from the device.
  double bandwidth = 0;
};

struct Route {
  LinkSpec link = {unlimited, 0};
  llvm::SmallVector<Hop, 4> hops;
};

/// What is the same in all hosts of a kind. Devices of the same kind on the same switch are reached alike: they are
/// one place, with a vertex for those that send and one for those that receive, as devices pass nothing on.
class HostShape {
public:
  HostShape(const HostSpec &spec, llvm::ArrayRef<double> memoryBandwidths, const std::optional<NetworkSpec> &network);

  unsigned numDevices() const { return places.size(); }
  unsigned numSwitches() const { return switches; }
  const NetworkSpec &network() const { return networkSpec; }
  double memoryBandwidth(unsigned device) const { return memories[device]; }
  bool hasPairs() const { return !pairs.empty(); }
  /// Whether the machine says how devices reach each other without a link of two. Else the way over the host is a
  /// guess, which a link of two goes before whatever its bandwidth.
  bool hasCommonLinks() const { return commonSwitch || switches; }
  /// Whether the switches are all that connects the devices.
  bool isTree() const { return switches && !commonSwitch && pairs.empty(); }
  unsigned switchOf(unsigned device) const { return switchIndices.empty() ? 0 : switchIndices[device]; }

  const LinkSpec *pair(unsigned a, unsigned b) const {
    auto found = pairs.find({std::min(a, b), std::max(a, b)});
    return found == pairs.end() ? nullptr : &found->second;
  }
  /// Between two devices, not over their pair.
  const Route &between(unsigned from, unsigned to) { return route(sender(from), receiver(to)); }
  /// Between a device and the host; there is one way.
  const Route &upwards(unsigned from) { return route(sender(from), host); }
  const Route &downwards(unsigned to) { return route(host, receiver(to)); }

private:
  struct Edge {
    LinkSpec link;
    Hop hop;
  };
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;
  using Vertex = Graph::vertex_descriptor;
  struct WideEnough;

  Vertex sender(unsigned device) const { return firstPlace + 2 * places[device]; }
  Vertex receiver(unsigned device) const { return sender(device) + 1; }
  void attach(unsigned place, Vertex to, unsigned port, const LinkSpec &link);
  void connect(Vertex from, Vertex to, const LinkSpec &link, Hop hop);
  std::vector<double> widths(Vertex from) const;
  Route shortest(Vertex from, Vertex to, double least) const;
  const Route &route(Vertex from, Vertex to);

  static constexpr Vertex host = 0;
  Graph graph;
  unsigned switches = 0;
  bool commonSwitch = false;
  Vertex firstPlace = 0;
  std::vector<unsigned> places, switchIndices;
  std::vector<double> memories;
  std::map<std::pair<unsigned, unsigned>, LinkSpec> pairs;
  NetworkSpec networkSpec;
  std::map<std::pair<Vertex, Vertex>, Route> routes;
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_HOSTSHAPE_H
