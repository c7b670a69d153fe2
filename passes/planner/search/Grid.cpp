// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shortest ways over the states of a few axes.

#include "passes/planner/search/Grid.h"

#include "passes/planner/solver/ChoiceProblem.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

namespace cleave::search {

Grid::Grid(const Topology &topology, llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<int64_t> sizes)
    : sizes(sizes), cost(topology, devices, sizes) {
  cost.prepare();
  llvm::SmallVector<unsigned, 3> order(sizes.size());
  std::iota(order.begin(), order.end(), 0u);
  do
    orders.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
}

int64_t Grid::numDevices() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

double Grid::localBytes(double bytes, const State &state) const {
  for (unsigned axis = 0; axis != sizes.size(); ++axis)
    if (AxisState::isCut(state[axis]))
      bytes /= static_cast<double>(sizes[axis]);
  return bytes;
}

double Grid::allReduce(double bytes, llvm::ArrayRef<unsigned> axes) const { return cost.allReduce(bytes, axes); }

double Grid::allGather(double bytes, llvm::ArrayRef<unsigned> axes) const { return cost.allGather(bytes, axes); }

double Grid::exchangeHalo(double bytes, unsigned axis) const { return cost.exchangeHalo(bytes, {axis}); }

double Grid::convert(double bytes, const State &from, const State &to) const {
  llvm::SmallVector<unsigned, 3> changed, reduced;
  bool isByChunks = false;
  for (unsigned axis = 0; axis != sizes.size(); ++axis) {
    isByChunks |= AxisState::isByChunks(from[axis]) || AxisState::isByChunks(to[axis]);
    if (from[axis] == to[axis] || sizes[axis] == 1)
      continue;
    if (to[axis] == AxisState::partial)
      return solver::forbidden;
    if (AxisState::goesAround(from[axis]) != AxisState::goesAround(to[axis])) {
      if (AxisState::withoutRing(from[axis]) != AxisState::withoutRing(to[axis]))
        return solver::forbidden;
      continue;
    }
    // A slice is free and makes everything else cheaper, so that it may come first.
    changed.push_back(axis);
    if (from[axis] == AxisState::partial && to[axis] == AxisState::whole)
      reduced.push_back(axis);
  }
  if (isByChunks && !changed.empty())
    return solver::forbidden;
  if (changed.empty())
    return 0;
  double best = solver::forbidden;
  for (const auto &order : orders) {
    double seconds = 0, local = localBytes(bytes, from);
    bool reducedDone = false;
    for (unsigned axis : order) {
      if (!llvm::is_contained(changed, axis))
        continue;
      auto ways = static_cast<double>(sizes[axis]);
      if (from[axis] == AxisState::partial && to[axis] == AxisState::whole) {
        // All at once, when the first of them comes.
        if (!reducedDone)
          seconds += allReduce(local, reduced);
        reducedDone = true;
      } else if (from[axis] == AxisState::partial) {
        seconds += cost.reduceScatter(local, {axis});
        local /= ways;
      } else if (from[axis] == AxisState::whole) {
        local /= ways;
      } else if (to[axis] == AxisState::whole) {
        local *= ways;
        seconds += cost.allGather(local, {axis});
      } else {
        seconds += cost.allToAll(local * ways, {axis});
      }
    }
    best = std::min(best, seconds);
    if (changed.size() == 1)
      break;
  }
  return best;
}

} // namespace cleave::search
