// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rings, hierarchies and exchanges as transfers that happen at once, and answers that are kept.

#include "passes/cost/Topology.h"

#include "passes/cost/MachineGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <mutex>

using namespace llvm;

namespace cleave {

//===-- groups of devices -------------------------------------------------------------------------------------===//

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

struct Topology::Graph : MachineGraph {
  using MachineGraph::MachineGraph;

  LinkSpec rings(const Groups &groups);
  SmallVector<LinkLevel> levels(const Groups &groups);
  LinkSpec exchange(ArrayRef<unsigned> from, ArrayRef<unsigned> to);
  Way way(unsigned from, unsigned to);
  std::vector<int64_t> gridKey(ArrayRef<unsigned> devices, ArrayRef<int64_t> sizes, ArrayRef<unsigned> axes) const;
  std::vector<int64_t> pairKey(ArrayRef<unsigned> from, ArrayRef<unsigned> to) const;

  std::mutex mutex;
  std::map<std::vector<int64_t>, LinkSpec> ringAnswers, exchangeAnswers;
  std::map<std::vector<int64_t>, SmallVector<LinkLevel>> levelAnswers;

private:
  LinkSpec pairRing(const HostShape &shape, ArrayRef<unsigned> devices) const;
  void addSegment(TransferSet &transfers, ArrayRef<unsigned> segment, ArrayRef<unsigned> next, LinkSpec &overPairs);
};

//===-- transfers at once -------------------------------------------------------------------------------------===//

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
void Topology::Graph::addSegment(TransferSet &transfers, ArrayRef<unsigned> segment, ArrayRef<unsigned> next,
                                 LinkSpec &overPairs) {
  HostShape &shape = shapeOf(segment.front());
  size_t leaving = next.empty() ? 0
                                : std::min({segment.size(), next.size(), size_t(shape.network().ports),
                                            size_t(shapeOf(next.front()).network().ports)});
  for (size_t i = 0; i < leaving; ++i)
    transfers.add(segment[segment.size() - 1 - i], next[i], 1.0 / leaving);
  if (segment.size() < 2)
    return;
  LinkSpec pairs = shape.hasPairs() ? pairRing(shape, segment) : LinkSpec();
  if (pairs.bandwidth && (!shape.hasCommonLinks() ||
                          pairs.bandwidth >= shape.between(localOf(segment[0]), localOf(segment[1])).link.bandwidth)) {
    overPairs = slowerOf(overPairs, pairs);
    return;
  }
  for (size_t i = 0; i < segment.size(); ++i) {
    bool leaves = segment.size() - 1 - i < leaving;
    if (double share = leaves ? 1 - 1.0 / leaving : 1; share > 0)
      transfers.add(segment[i], segment[(i + 1) % segment.size()], share);
  }
}

/// The slowest step between neighbours of the groups' rings, all used at once.
LinkSpec Topology::Graph::rings(const Groups &groups) {
  if (groups.devices.empty())
    return unknownDevice;
  if (groups.size < 2)
    return memory(groups.devices.front());
  TransferSet transfers(*this);
  LinkSpec overPairs{unlimited, 0};
  for (size_t index = 0; index < groups.count(); ++index) {
    SmallVector<ArrayRef<unsigned>> segments;
    forEachRun(
        groups[index], [&](unsigned device) { return hostOf(device); },
        [&](ArrayRef<unsigned> segment) { segments.push_back(segment); });
    for (size_t i = 0; i < segments.size(); ++i)
      addSegment(transfers, segments[i],
                 segments.size() > 1 ? segments[(i + 1) % segments.size()] : ArrayRef<unsigned>(), overPairs);
  }
  if (transfers.isEmpty())
    return overPairs;
  return slowerOf(overPairs, transfers.slowest());
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
  size_t inHost = evenRun(groups, [&](unsigned device) { return hostOf(device); });
  if (!inHost) {
    result.push_back({static_cast<int64_t>(groups.size), rings(groups)});
    return result;
  }
  bool trees = all_of(groups.devices, [&](unsigned device) { return shapeOf(device).isTree(); });
  size_t onSwitch = 0;
  if (trees)
    onSwitch = evenRun(groups, [&](unsigned device) { return switchOf(device); });
  if (!onSwitch || inHost % onSwitch)
    onSwitch = inHost;
  size_t inZone = evenRun(groups, [&](unsigned device) { return zoneOf(device); });
  if (!inZone)
    inZone = groups.size;
  size_t step = 1;
  for (size_t whole : {onSwitch, inHost, inZone, groups.size}) {
    if (whole > step) {
      result.push_back({static_cast<int64_t>(whole / step), rings(everyNth(groups, whole, step))});
      if (inZone < groups.size)
        result.back().ring = rings(everyNth(groups, groups.size, step)).bandwidth;
    }
    step = whole;
  }
  return result;
}

LinkSpec Topology::Graph::exchange(ArrayRef<unsigned> from, ArrayRef<unsigned> to) {
  TransferSet transfers(*this);
  size_t count = std::max(from.size(), to.size());
  for (size_t i = 0; i < count; ++i)
    transfers.add(from[i * from.size() / count], to[i * to.size() / count]);
  return transfers.slowest();
}

Topology::Way Topology::Graph::way(unsigned from, unsigned to) {
  Flow flow = find(from, to);
  Way result{flow.link, {}};
  forEachLink(flow, [&](size_t link, double bandwidth) { result.parts.push_back({link, bandwidth}); });
  return result;
}

//===-- answers that are kept ---------------------------------------------------------------------------------===//

/// The first of devices that follow each other.
static std::optional<size_t> runStart(ArrayRef<unsigned> devices) {
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
  bool alike = shapeNumberOf(devices.front()) == shapeNumberOf(devices.back());
  key.push_back(alike ? -1 - static_cast<int64_t>(shapeNumberOf(*start)) : static_cast<int64_t>(*start));
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
  unsigned shape = shapeNumberOf(*start);
  bool alike = all_of(ArrayRef{from.back(), to.front(), to.back()},
                      [&](unsigned device) { return shapeNumberOf(device) == shape; });
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

size_t Topology::numLinks() const {
  std::lock_guard lock(graph->mutex);
  return graph->numLinks();
}

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
