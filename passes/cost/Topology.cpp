// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Paths within a host are found once for each kind of host and place in it; transfers that happen at once share the
// links of their paths evenly.

#include "passes/cost/Topology.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/property_map/transform_value_property_map.hpp>
#include <limits>
#include <mutex>

using namespace llvm;

namespace cleave {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
/// What Topology.h says of links about which a machine says nothing.
constexpr LinkSpec unknownDevice = {10e9, 5e-6};
constexpr NetworkSpec unknownNetwork = {{1.25e9, 50e-6}, 1};

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
  SmallVector<Hop, 4> hops;
};

struct GraphEdge {
  LinkSpec link;
  Hop hop;
};

using HostGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, GraphEdge>;

/// The links that are at least so wide.
struct WideEnough {
  const HostGraph *graph = nullptr;
  double least = 0;
  bool operator()(const HostGraph::edge_descriptor &edge) const { return (*graph)[edge].link.bandwidth >= least; }
};

//===-- hosts -------------------------------------------------------------------------------------------------===//

/// What is the same in all hosts of a kind. Devices of the same kind on the same switch are reached alike: they are
/// one place, with a vertex for those that send and one for those that receive, as devices pass nothing on.
class HostShape {
public:
  HostShape(const HostSpec &spec, ArrayRef<double> memoryBandwidths, const std::optional<NetworkSpec> &network);

  unsigned numDevices() const { return places.size(); }
  unsigned numSwitches() const { return switches; }
  const NetworkSpec &network() const { return networkSpec; }
  double memoryBandwidth(unsigned device) const { return memories[device]; }
  bool hasPairs() const { return !pairs.empty(); }
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
  using Vertex = HostGraph::vertex_descriptor;

  Vertex sender(unsigned device) const { return firstPlace + 2 * places[device]; }
  Vertex receiver(unsigned device) const { return sender(device) + 1; }
  void attach(unsigned place, Vertex to, unsigned port, const LinkSpec &link);
  void connect(Vertex from, Vertex to, const LinkSpec &link, Hop hop);
  std::vector<double> widths(Vertex from) const;
  Route shortest(Vertex from, Vertex to, double least) const;
  const Route &route(Vertex from, Vertex to);

  static constexpr Vertex host = 0;
  HostGraph graph;
  unsigned switches = 0;
  bool commonSwitch = false;
  Vertex firstPlace = 0;
  std::vector<unsigned> places, switchIndices;
  std::vector<double> memories;
  std::map<std::pair<unsigned, unsigned>, LinkSpec> pairs;
  NetworkSpec networkSpec;
  std::map<std::pair<Vertex, Vertex>, Route> routes;
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
  boost::add_edge(from, to, GraphEdge{link, hop}, graph);
}

/// The bandwidth of the widest path to every vertex.
std::vector<double> HostShape::widths(Vertex from) const {
  std::vector<double> result(boost::num_vertices(graph));
  auto bandwidth = boost::make_transform_value_property_map([](const GraphEdge &edge) { return edge.link.bandwidth; },
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
  boost::filtered_graph<HostGraph, WideEnough> wide(graph, WideEnough{&graph, least});
  std::vector<double> distances(boost::num_vertices(graph));
  std::vector<Vertex> before(boost::num_vertices(graph));
  auto index = boost::get(boost::vertex_index, graph);
  auto latency = boost::make_transform_value_property_map([](const GraphEdge &edge) { return edge.link.latency; },
                                                          boost::get(boost::edge_bundle, wide));
  boost::dijkstra_shortest_paths(wide, from,
                                 boost::weight_map(latency)
                                     .distance_map(boost::make_iterator_property_map(distances.begin(), index))
                                     .predecessor_map(boost::make_iterator_property_map(before.begin(), index)));
  Route route;
  for (Vertex at = to; at != from; at = before[at]) {
    const GraphEdge &edge = graph[boost::edge(before[at], at, graph).first];
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

} // namespace

//===-- the machine -------------------------------------------------------------------------------------------===//

namespace {

/// Groups of devices, one after the other, all of one size, each in ascending order.
struct Groups {
  std::vector<unsigned> devices;
  size_t size = 1;

  size_t count() const { return devices.size() / size; }
  ArrayRef<unsigned> operator[](size_t group) const { return ArrayRef(devices).slice(group * size, size); }
};

} // namespace

/// Calls `visit` with each part of neighbours that are at one place.
static void forEachRun(ArrayRef<unsigned> devices, function_ref<size_t(unsigned)> placeOf,
                       function_ref<void(ArrayRef<unsigned>)> visit) {
  for (size_t begin = 0, end = 0; begin < devices.size(); begin = end) {
    while (end < devices.size() && placeOf(devices[end]) == placeOf(devices[begin]))
      ++end;
    visit(devices.slice(begin, end - begin));
  }
}

/// The devices of a grid that differ along `axes` only.
static Groups groupsAlong(ArrayRef<unsigned> devices, ArrayRef<int64_t> sizes, ArrayRef<unsigned> axes) {
  size_t numAxes = sizes.size();
  SmallVector<size_t> strides(numAxes, 1);
  for (size_t axis = numAxes; axis-- > 1;)
    strides[axis - 1] = strides[axis] * sizes[axis];
  // Offsets of all coordinates along some axes, in the order of the grid.
  auto offsets = [&](bool inside) {
    std::vector<size_t> result = {0};
    for (size_t axis = 0; axis < numAxes; ++axis) {
      if (is_contained(axes, axis) != inside)
        continue;
      std::vector<size_t> longer;
      for (size_t offset : result)
        for (int64_t i = 0; i < sizes[axis]; ++i)
          longer.push_back(offset + i * strides[axis]);
      result = std::move(longer);
    }
    return result;
  };
  std::vector<size_t> inner = offsets(true), outer = offsets(false);
  Groups groups;
  groups.size = inner.size();
  groups.devices.reserve(devices.size());
  for (size_t start : outer) {
    size_t begin = groups.devices.size();
    for (size_t offset : inner)
      groups.devices.push_back(devices[start + offset]);
    if (!std::is_sorted(groups.devices.begin() + begin, groups.devices.end()))
      std::sort(groups.devices.begin() + begin, groups.devices.end());
  }
  return groups;
}

struct Topology::Graph {
  explicit Graph(const Machine &machine);

  LinkSpec memory(unsigned device) const {
    double bandwidth = shapeOf(device).memoryBandwidth(localOf(device));
    return {bandwidth ? bandwidth / 2 : unknownDevice.bandwidth, 0};
  }
  unsigned localOf(unsigned device) const { return device - firstDevices[hosts[device]]; }
  HostShape &shapeOf(unsigned device) const { return *shapes[shapeOfHost[hosts[device]]]; }

  LinkSpec rings(const Groups &groups);
  SmallVector<LinkLevel> levels(const Groups &groups);
  LinkSpec exchange(ArrayRef<unsigned> from, ArrayRef<unsigned> to);
  Way way(unsigned from, unsigned to);
  std::vector<int64_t> gridKey(ArrayRef<unsigned> devices, ArrayRef<int64_t> sizes, ArrayRef<unsigned> axes) const;
  std::vector<int64_t> pairKey(ArrayRef<unsigned> from, ArrayRef<unsigned> to) const;

  std::vector<std::unique_ptr<HostShape>> shapes;
  std::vector<unsigned> hosts;                     ///< by device
  std::vector<unsigned> shapeOfHost, firstDevices; ///< by host
  std::vector<size_t> firstLinks = {0};            ///< by host, and the end
  std::mutex mutex;
  std::map<std::vector<int64_t>, LinkSpec> ringAnswers, exchangeAnswers;
  std::map<std::vector<int64_t>, SmallVector<LinkLevel>> levelAnswers;

private:
  class Traffic;
  std::optional<size_t> runStart(ArrayRef<unsigned> devices) const;
  LinkSpec pairRing(const HostShape &shape, ArrayRef<unsigned> devices) const;
  void addSegment(Traffic &traffic, ArrayRef<unsigned> segment, ArrayRef<unsigned> next, LinkSpec &overPairs);
};

Topology::Graph::Graph(const Machine &machine) {
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
}

//===-- transfers at once -------------------------------------------------------------------------------------===//

/// Transfers that happen at once. A link serves those that cross it by what they bring.
class Topology::Graph::Traffic {
public:
  explicit Traffic(Graph &graph) : graph(graph) {}

  bool isEmpty() const { return flows.empty(); }
  /// `share`: the part of what every device passes on that goes this way.
  void add(unsigned from, unsigned to, double share = 1) {
    flows.push_back(find(from, to));
    flows.back().share = share;
  }

  Way way(unsigned from, unsigned to) {
    Flow flow = find(from, to);
    Way result{flow.link, {}};
    forEachLink(flow, [&](size_t link, double bandwidth) { result.parts.push_back({link, bandwidth}); });
    return result;
  }

  /// What every device can pass on in a second, and the largest latency.
  LinkSpec slowest() {
    LinkSpec result{unlimited, 0};
    loads.assign(graph.firstLinks.back(), 0);
    for (const Flow &flow : flows)
      forEachLink(flow, [&](size_t link, double) { loads[link] += flow.share; });
    for (const Flow &flow : flows) {
      result =
          slowerOf(result, {flow.link.bandwidth / flow.share, flow.link.latency, flow.link.combine, flow.link.start});
      forEachLink(flow, [&](size_t link, double bandwidth) {
        result.bandwidth = std::min(result.bandwidth, bandwidth / loads[link]);
      });
    }
    return result;
  }

private:
  struct Flow {
    unsigned from, to;
    LinkSpec link;              ///< of this flow alone
    const Route *out = nullptr; ///< to the other device, or to the own host
    const Route *in = nullptr;  ///< from the other host
    double share = 1;
  };

  Flow find(unsigned from, unsigned to);
  template <typename Visit> void forEachLink(const Flow &flow, Visit visit) const;
  /// The number of a direction of a link among all of the machine's.
  size_t linkOf(unsigned device, const Hop &hop) const;

  Graph &graph;
  std::vector<Flow> flows;
  std::vector<double> loads; ///< by link and direction
};

Topology::Graph::Traffic::Flow Topology::Graph::Traffic::find(unsigned from, unsigned to) {
  HostShape &shape = graph.shapeOf(from), &other = graph.shapeOf(to);
  unsigned local = graph.localOf(from), otherLocal = graph.localOf(to);
  if (from == to)
    return {from, to, graph.memory(from)};
  if (graph.hosts[from] == graph.hosts[to]) {
    const Route &route = shape.between(local, otherLocal);
    const LinkSpec *pair = shape.pair(local, otherLocal);
    auto rank = [](const LinkSpec &link) { return std::pair(link.bandwidth, -link.latency); };
    if (pair && rank(*pair) >= rank(route.link))
      return {from, to, *pair};
    return {from, to, route.link, &route};
  }
  const LinkSpec &mine = shape.network().link, &theirs = other.network().link;
  const Route &out = shape.upwards(local), &in = other.downwards(otherLocal);
  LinkSpec link = slowerOf(slowerOf(mine, theirs), slowerOf(out.link, in.link));
  link.latency = out.link.latency + in.link.latency + (mine.latency + theirs.latency) / 2;
  return {from, to, link, &out, &in};
}

size_t Topology::Graph::Traffic::linkOf(unsigned device, const Hop &hop) const {
  size_t index =
      hop.owner == Hop::Host ? hop.link : graph.shapeOf(device).numSwitches() + 2 * graph.localOf(device) + hop.link;
  return graph.firstLinks[graph.hosts[device]] + 2 * (index + 1) + hop.upwards;
}

template <typename Visit> void Topology::Graph::Traffic::forEachLink(const Flow &flow, Visit visit) const {
  if (flow.out)
    for (const Hop &hop : flow.out->hops)
      visit(linkOf(hop.owner == Hop::Receiver ? flow.to : flow.from, hop), hop.bandwidth);
  if (!flow.in)
    return;
  for (const Hop &hop : flow.in->hops)
    visit(linkOf(flow.to, hop), hop.bandwidth);
  // The network is a host's first link.
  for (unsigned device : {flow.from, flow.to}) {
    const NetworkSpec &network = graph.shapeOf(device).network();
    visit(graph.firstLinks[graph.hosts[device]] + (device == flow.from), network.link.bandwidth * network.ports);
  }
}

/// The ring over the pairs of some devices of a host, if these connect them: several rings that use all pairs have
/// together what a device has to the others.
LinkSpec Topology::Graph::pairRing(const HostShape &shape, ArrayRef<unsigned> devices) const {
  LinkSpec result{unlimited, 0};
  SmallVector<unsigned> reached = {0};
  SmallVector<bool> isReached(devices.size());
  isReached[0] = true;
  for (size_t next = 0; next < reached.size(); ++next) {
    double together = 0;
    for (size_t other = 0; other < devices.size(); ++other) {
      const LinkSpec *pair = shape.pair(localOf(devices[reached[next]]), localOf(devices[other]));
      if (other == reached[next] || !pair)
        continue;
      together += pair->bandwidth;
      result = slowerOf(result, {unlimited, pair->latency, pair->combine, pair->start});
      if (!std::exchange(isReached[other], true))
        reached.push_back(other);
    }
    result.bandwidth = std::min(result.bandwidth, together);
  }
  return reached.size() == devices.size() ? result : LinkSpec();
}

/// Adds the rings of a group's devices on one host: `segment`. As many rings as there are ports leave for `next`, the
/// group's devices on the next host, each from another device, which passes on less to its neighbour for that.
void Topology::Graph::addSegment(Traffic &traffic, ArrayRef<unsigned> segment, ArrayRef<unsigned> next,
                                 LinkSpec &overPairs) {
  HostShape &shape = shapeOf(segment.front());
  size_t leaving = next.empty() ? 0
                                : std::min({segment.size(), next.size(), size_t(shape.network().ports),
                                            size_t(shapeOf(next.front()).network().ports)});
  for (size_t i = 0; i < leaving; ++i)
    traffic.add(segment[segment.size() - 1 - i], next[i], 1.0 / leaving);
  if (segment.size() < 2)
    return;
  LinkSpec pairs = shape.hasPairs() ? pairRing(shape, segment) : LinkSpec();
  if (pairs.bandwidth && pairs.bandwidth >= shape.between(localOf(segment[0]), localOf(segment[1])).link.bandwidth) {
    overPairs = slowerOf(overPairs, pairs);
    return;
  }
  for (size_t i = 0; i < segment.size(); ++i) {
    bool leaves = segment.size() - 1 - i < leaving;
    if (double share = leaves ? 1 - 1.0 / leaving : 1; share > 0)
      traffic.add(segment[i], segment[(i + 1) % segment.size()], share);
  }
}

/// The slowest step between neighbours of the groups' rings, all used at once.
LinkSpec Topology::Graph::rings(const Groups &groups) {
  if (groups.devices.empty())
    return unknownDevice;
  if (groups.size < 2)
    return memory(groups.devices.front());
  Traffic traffic(*this);
  LinkSpec overPairs{unlimited, 0};
  for (size_t index = 0; index < groups.count(); ++index) {
    SmallVector<ArrayRef<unsigned>> segments;
    forEachRun(
        groups[index], [&](unsigned device) { return hosts[device]; },
        [&](ArrayRef<unsigned> segment) { segments.push_back(segment); });
    for (size_t i = 0; i < segments.size(); ++i)
      addSegment(traffic, segments[i], segments.size() > 1 ? segments[(i + 1) % segments.size()] : ArrayRef<unsigned>(),
                 overPairs);
  }
  if (traffic.isEmpty())
    return overPairs;
  return slowerOf(overPairs, traffic.slowest());
}

/// The number of neighbours in a group that are at one place, if it is the same everywhere; else 0.
static size_t evenRun(const Groups &groups, function_ref<size_t(unsigned)> placeOf) {
  size_t run = groups[0].size();
  bool first = true, even = true;
  for (size_t index = 0; index < groups.count(); ++index)
    forEachRun(groups[index], placeOf, [&](ArrayRef<unsigned> part) {
      run = std::exchange(first, false) ? part.size() : run;
      even &= part.size() == run;
    });
  return even ? run : 0;
}

/// Within each run of `whole` devices of a group those that are `step` apart.
static Groups everyNth(const Groups &groups, size_t whole, size_t step) {
  Groups result;
  result.size = whole / step;
  result.devices.reserve(groups.devices.size());
  for (size_t begin = 0; begin < groups.devices.size(); begin += whole)
    for (size_t offset = 0; offset < step; ++offset)
      for (size_t i = offset; i < whole; i += step)
        result.devices.push_back(groups.devices[begin + i]);
  return result;
}

SmallVector<LinkLevel> Topology::Graph::levels(const Groups &groups) {
  SmallVector<LinkLevel> result;
  if (groups.size < 2)
    return result;
  size_t inHost = evenRun(groups, [&](unsigned device) { return hosts[device]; });
  if (!inHost) {
    result.push_back({static_cast<int64_t>(groups.size), rings(groups)});
    return result;
  }
  bool trees = all_of(groups.devices, [&](unsigned device) { return shapeOf(device).isTree(); });
  size_t onSwitch = 0;
  if (trees)
    onSwitch = evenRun(
        groups, [&](unsigned device) { return firstLinks[hosts[device]] + shapeOf(device).switchOf(localOf(device)); });
  if (!onSwitch || inHost % onSwitch)
    onSwitch = inHost;
  size_t step = 1;
  for (size_t whole : {onSwitch, inHost, groups.size}) {
    if (whole > step)
      result.push_back({static_cast<int64_t>(whole / step), rings(everyNth(groups, whole, step))});
    step = whole;
  }
  return result;
}

LinkSpec Topology::Graph::exchange(ArrayRef<unsigned> from, ArrayRef<unsigned> to) {
  Traffic traffic(*this);
  size_t count = std::max(from.size(), to.size());
  for (size_t i = 0; i < count; ++i)
    traffic.add(from[i * from.size() / count], to[i * to.size() / count]);
  return traffic.slowest();
}

Topology::Way Topology::Graph::way(unsigned from, unsigned to) { return Traffic(*this).way(from, to); }

//===-- answers that are kept ---------------------------------------------------------------------------------===//

/// The first of devices that follow each other.
std::optional<size_t> Topology::Graph::runStart(ArrayRef<unsigned> devices) const {
  for (size_t i = 1; i < devices.size(); ++i)
    if (devices[i] != devices[0] + i)
      return std::nullopt;
  return devices.empty() ? 0 : devices[0];
}

/// What tells questions about grids apart: where in which kind of host the devices begin, or all of them.
std::vector<int64_t> Topology::Graph::gridKey(ArrayRef<unsigned> devices, ArrayRef<int64_t> sizes,
                                              ArrayRef<unsigned> axes) const {
  std::vector<int64_t> key;
  // Neighbouring axes that are both inside or both outside are one.
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1)
      continue;
    int64_t sign = is_contained(axes, axis) ? 1 : -1;
    if (!key.empty() && (key.back() > 0) == (sign > 0))
      key.back() *= sizes[axis];
    else
      key.push_back(sign * sizes[axis]);
  }
  key.push_back(0);
  auto start = runStart(devices);
  if (!start || devices.empty()) {
    key.insert(key.end(), devices.begin(), devices.end());
    return key;
  }
  key.push_back(-1);
  bool alike = shapeOfHost[hosts[devices.front()]] == shapeOfHost[hosts[devices.back()]];
  key.push_back(alike ? -1 - static_cast<int64_t>(shapeOfHost[hosts[*start]]) : static_cast<int64_t>(*start));
  key.push_back(localOf(*start));
  return key;
}

std::vector<int64_t> Topology::Graph::pairKey(ArrayRef<unsigned> from, ArrayRef<unsigned> to) const {
  auto start = runStart(from), otherStart = runStart(to);
  std::vector<int64_t> key = {static_cast<int64_t>(from.size()), static_cast<int64_t>(to.size())};
  if (!start || !otherStart) {
    key.insert(key.end(), from.begin(), from.end());
    key.insert(key.end(), to.begin(), to.end());
    return key;
  }
  unsigned shape = shapeOfHost[hosts[*start]];
  bool alike = all_of(ArrayRef{from.back(), to.front(), to.back()},
                      [&](unsigned device) { return shapeOfHost[hosts[device]] == shape; });
  int64_t distance = static_cast<int64_t>(*otherStart) - static_cast<int64_t>(*start);
  key.insert(key.end(), {-1, alike ? -1 - static_cast<int64_t>(shape) : static_cast<int64_t>(*start),
                         static_cast<int64_t>(localOf(*start)), distance});
  return key;
}

Topology::Topology(const Machine &machine) : graph(std::make_unique<Graph>(machine)) {}
Topology::Topology(Topology &&) noexcept = default;
Topology::~Topology() = default;

LinkSpec Topology::between(unsigned from, unsigned to) const { return across({from}, {to}); }

Topology::Way Topology::way(unsigned from, unsigned to) const {
  std::lock_guard lock(graph->mutex);
  return graph->way(from, to);
}

size_t Topology::numLinks() const { return graph->firstLinks.back(); }

LinkSpec Topology::along(ArrayRef<unsigned> devices, ArrayRef<int64_t> sizes, ArrayRef<unsigned> axes) const {
  std::lock_guard lock(graph->mutex);
  auto [found, isNew] = graph->ringAnswers.try_emplace(graph->gridKey(devices, sizes, axes));
  if (isNew)
    found->second = graph->rings(groupsAlong(devices, sizes, axes));
  return found->second;
}

SmallVector<LinkLevel> Topology::levels(ArrayRef<unsigned> devices, ArrayRef<int64_t> sizes,
                                        ArrayRef<unsigned> axes) const {
  std::lock_guard lock(graph->mutex);
  auto [found, isNew] = graph->levelAnswers.try_emplace(graph->gridKey(devices, sizes, axes));
  if (isNew)
    found->second = graph->levels(groupsAlong(devices, sizes, axes));
  return found->second;
}

LinkSpec Topology::across(ArrayRef<unsigned> from, ArrayRef<unsigned> to) const {
  std::lock_guard lock(graph->mutex);
  auto [found, isNew] = graph->exchangeAnswers.try_emplace(graph->pairKey(from, to));
  if (isNew)
    found->second = graph->exchange(from, to);
  return found->second;
}

} // namespace cleave
