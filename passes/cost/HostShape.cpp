// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Widest paths within a host, and of these the shortest.

#include "passes/cost/HostShape.h"

#include "passes/cost/CollectiveCost.h"

#include "llvm/ADT/STLExtras.h"

#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/property_map/transform_value_property_map.hpp>

using namespace llvm;

namespace cleave {

/// The links that are at least so wide.
struct HostShape::WideEnough {
  const Graph *graph = nullptr;
  double least = 0;
  bool operator()(const Graph::edge_descriptor &edge) const { return (*graph)[edge].link.bandwidth >= least; }
};

HostShape::HostShape(const HostSpec &spec, ArrayRef<double> memoryBandwidths, const std::optional<NetworkSpec> &network)
    : switches(spec.switches.size()), commonSwitch(spec.link.has_value()),
      memories(memoryBandwidths.begin(), memoryBandwidths.end()), networkSpec(network.value_or(unknownNetwork)) {
  for (const PairSpec &pair : spec.pairs)
    pairs[{std::min(pair.first, pair.second), std::max(pair.first, pair.second)}] = pair.link;
  for (auto [index, part] : enumerate(spec.switches))
    switchIndices.insert(switchIndices.end(), part.devices, index);
  switchIndices.resize(switches ? memories.size() : 0);
  // The common switch is a vertex of its own where the devices reach the host over others.
  Vertex common = commonSwitch && switches ? 1 : host;
  Vertex firstSwitch = common + 1;
  firstPlace = firstSwitch + switches;
  std::map<std::pair<unsigned, double>, unsigned> numbers;
  for (auto [device, memory] : enumerate(memories)) {
    double known = commonSwitch || switches ? 0 : memory; // what tells devices apart
    places.push_back(numbers.try_emplace({switchOf(device), known}, numbers.size()).first->second);
  }
  for (Vertex vertex = 0; vertex < firstPlace + 2 * numbers.size(); ++vertex)
    boost::add_vertex(graph);
  for (auto [index, part] : enumerate(spec.switches)) {
    Hop hop{Hop::Host, static_cast<unsigned>(index), true, part.up.bandwidth};
    connect(firstSwitch + index, host, part.up, hop);
    hop.upwards = false;
    connect(host, firstSwitch + index, part.up, hop);
  }
  for (auto &[key, place] : numbers) {
    auto [switchIndex, memory] = key;
    if (commonSwitch)
      attach(place, common, 0, {spec.link->bandwidth, spec.link->latency / 2, spec.link->combine, spec.link->start});
    if (switches)
      attach(place, firstSwitch + switchIndex, 1, spec.switches[switchIndex].link);
    else if (!commonSwitch)
      attach(place, host, 0, {memory ? memory / 2 : unknownDevice.bandwidth, unknownDevice.latency / 2});
  }
}

void HostShape::attach(unsigned place, Vertex to, unsigned port, const LinkSpec &link) {
  connect(firstPlace + 2 * place, to, link, {Hop::Sender, port, true, link.bandwidth});
  connect(to, firstPlace + 2 * place + 1, link, {Hop::Receiver, port, false, link.bandwidth});
}

void HostShape::connect(Vertex from, Vertex to, const LinkSpec &link, Hop hop) {
  boost::add_edge(from, to, Edge{link, hop}, graph);
}

/// The bandwidth of the widest path to every vertex.
std::vector<double> HostShape::widths(Vertex from) const {
  std::vector<double> result(boost::num_vertices(graph));
  auto bandwidth = boost::make_transform_value_property_map([](const Edge &edge) { return edge.link.bandwidth; },
                                                            boost::get(boost::edge_bundle, graph));
  boost::dijkstra_shortest_paths(
      graph, from,
      boost::weight_map(bandwidth)
          .distance_map(boost::make_iterator_property_map(result.begin(), boost::get(boost::vertex_index, graph)))
          .distance_compare(std::greater<double>())
          .distance_combine([](double path, double edge) { return std::min(path, edge); })
          .distance_inf(0.0)
          .distance_zero(unlimited));
  return result;
}

/// The path of the least latency over links of at least that bandwidth; there is one.
Route HostShape::shortest(Vertex from, Vertex to, double least) const {
  boost::filtered_graph<Graph, WideEnough> wide(graph, WideEnough{&graph, least});
  std::vector<double> distances(boost::num_vertices(graph));
  std::vector<Vertex> before(boost::num_vertices(graph));
  auto index = boost::get(boost::vertex_index, graph);
  auto latency = boost::make_transform_value_property_map([](const Edge &edge) { return edge.link.latency; },
                                                          boost::get(boost::edge_bundle, wide));
  boost::dijkstra_shortest_paths(wide, from,
                                 boost::weight_map(latency)
                                     .distance_map(boost::make_iterator_property_map(distances.begin(), index))
                                     .predecessor_map(boost::make_iterator_property_map(before.begin(), index)));
  Route route;
  for (Vertex at = to; at != from; at = before[at]) {
    const Edge &edge = graph[boost::edge(before[at], at, graph).first];
    route.hops.push_back(edge.hop);
    double latency = route.link.latency + edge.link.latency;
    route.link = slowerOf(route.link, edge.link);
    route.link.latency = latency;
  }
  return route;
}

const Route &HostShape::route(Vertex from, Vertex to) {
  auto [found, isNew] = routes.try_emplace({from, to});
  if (isNew)
    found->second = shortest(from, to, widths(from)[to]);
  return found->second;
}

} // namespace cleave
