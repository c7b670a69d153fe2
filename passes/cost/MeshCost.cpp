// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the links of sets of axes when they are first asked for.

#include "passes/cost/MeshCost.h"

#include <algorithm>

using namespace llvm;

namespace cleave {

MeshCost::MeshCost(const Topology &topology, ArrayRef<unsigned> devices, ArrayRef<int64_t> sizes)
    : topology(&topology), devices(devices.begin(), devices.end()), sizes(sizes), links(sizes.size()) {
  size_t sets = 1;
  for (int64_t size : sizes) {
    bits.push_back(size > 1 ? sets : 0);
    sets *= size > 1 ? 2 : 1;
  }
  hierarchies.resize(sets);
}

const MeshCost::Levels &MeshCost::levels(ArrayRef<unsigned> axes) const {
  size_t set = 0;
  for (unsigned axis : axes)
    set |= bits[axis];
  std::optional<Levels> &known = hierarchies[set];
  if (!known)
    known = set ? topology->levels(devices, sizes, axes) : Levels();
  return *known;
}

const LinkSpec &MeshCost::neighbours(unsigned axis) const {
  std::optional<LinkSpec> &known = links[axis];
  if (!known)
    known = topology->along(devices, sizes, {axis});
  return *known;
}

void MeshCost::prepare() const {
  for (size_t set = 0; set != hierarchies.size(); ++set) {
    SmallVector<unsigned, 3> axes;
    for (unsigned axis = 0; axis != sizes.size(); ++axis)
      if (set & bits[axis])
        axes.push_back(axis);
    levels(axes);
  }
  for (unsigned axis = 0; axis != sizes.size(); ++axis)
    neighbours(axis);
}

double MeshCost::allReduce(double bytes, ArrayRef<unsigned> axes) const {
  return allReduceSeconds(bytes, levels(axes));
}

double MeshCost::reduceScatter(double bytes, ArrayRef<unsigned> axes) const {
  return reduceScatterSeconds(bytes, levels(axes));
}

double MeshCost::allGather(double bytes, ArrayRef<unsigned> axes) const {
  return allGatherSeconds(bytes, levels(axes));
}

double MeshCost::allToAll(double bytes, ArrayRef<unsigned> axes) const { return allToAllSeconds(bytes, levels(axes)); }

double MeshCost::exchange(double bytes, int64_t peers, ArrayRef<unsigned> axes) const {
  return exchangeSeconds(bytes, static_cast<double>(peers), levels(axes));
}

double MeshCost::exchangeHalo(double bytes, ArrayRef<unsigned> axes) const {
  double latency = 0, slowest = 0;
  for (unsigned axis : axes) {
    if (sizes[axis] <= 1)
      continue;
    const LinkSpec &link = neighbours(axis);
    latency += 2 * link.latency;
    slowest = std::max(slowest, bytes / link.bandwidth);
  }
  return latency + slowest;
}

} // namespace cleave
