// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shortest ways over the states of a few axes.

#include "passes/planner/search/Grid.h"

#include "passes/planner/solver/ChoiceProblem.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

namespace cleave::search {

Grid::Grid(const Topology &topology, llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<int64_t> sizes,
           llvm::ArrayRef<double> shownParts)
    : sizes(sizes), cost(topology, devices, sizes), shown(shownParts) {
  shown.resize(sizes.size(), 1);
  cost.prepare();
  llvm::SmallVector<unsigned, 3> order(sizes.size());
  std::iota(order.begin(), order.end(), 0u);
  do
    orders.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
}

llvm::SmallVector<double> shownWithinHosts(const Machine &machine, llvm::ArrayRef<unsigned> devices,
                                           llvm::ArrayRef<int64_t> sizes, double hidden) {
  llvm::SmallVector<double> shown(sizes.size(), 1);
  size_t stride = 1;
  for (size_t axis = sizes.size(); axis-- != 0; stride *= static_cast<size_t>(sizes[axis])) {
    auto ways = static_cast<size_t>(sizes[axis]);
    bool isInHost = true;
    for (size_t index = 0; index != devices.size(); ++index)
      if (index / stride % ways != 0)
        isInHost &= machine.devices[devices[index]].host == machine.devices[devices[index - stride]].host;
    double first = 1.0 / static_cast<double>(ways);
    if (isInHost)
      shown[axis] = std::min(1.0, first + (1 - first) * hidden);
  }
  return shown;
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

Grid::Change Grid::changeOf(const State &from, const State &to) const {
  Change change;
  bool isByChunks = false, changes = false;
  for (unsigned axis = 0; axis != sizes.size(); ++axis) {
    uint64_t before = from[axis], after = to[axis];
    isByChunks |= AxisState::isByChunks(before) || AxisState::isByChunks(after);
    Step step = AxisState::isCut(before) ? Step::NoneOfCut : Step::None;
    if (before != after && sizes[axis] != 1) {
      if (after == AxisState::partial)
        return {0, false};
      if (AxisState::goesAround(before) != AxisState::goesAround(after)) {
        if (AxisState::withoutRing(before) != AxisState::withoutRing(after))
          return {0, false};
      } else {
        changes = true;
        if (before == AxisState::partial)
          step = after == AxisState::whole ? Step::AllReduce : Step::ReduceScatter;
        else if (before == AxisState::whole)
          step = Step::Slice;
        else
          step = after == AxisState::whole ? Step::AllGather : Step::AllToAll;
      }
    }
    change.steps |= static_cast<uint32_t>(step) << 3 * axis;
  }
  change.isPossible = !isByChunks || !changes;
  return change;
}

double Grid::convert(double bytes, Change change) const {
  if (!change.isPossible)
    return solver::forbidden;
  llvm::SmallVector<unsigned, mostAxes> changed, reduced;
  double held = bytes;
  for (unsigned axis = 0; axis != sizes.size(); ++axis) {
    Step step = change.at(axis);
    if (step == Step::NoneOfCut || step == Step::AllGather || step == Step::AllToAll)
      held /= static_cast<double>(sizes[axis]);
    if (step != Step::None && step != Step::NoneOfCut)
      changed.push_back(axis);
    if (step == Step::AllReduce)
      reduced.push_back(axis);
  }
  if (changed.empty())
    return 0;
  double best = solver::forbidden;
  // A slice is free and makes everything else cheaper, so that it may come first.
  for (const auto &order : orders) {
    double seconds = 0, local = held;
    bool reducedDone = false;
    for (unsigned axis : order) {
      auto ways = static_cast<double>(sizes[axis]);
      switch (change.at(axis)) {
      case Step::None:
      case Step::NoneOfCut:
        break;
      case Step::AllReduce:
        // All at once, when the first of them comes.
        if (!reducedDone)
          seconds += allReduce(local, reduced);
        reducedDone = true;
        break;
      case Step::ReduceScatter:
        seconds += shown[axis] * cost.reduceScatter(local, {axis});
        local /= ways;
        break;
      case Step::Slice:
        local /= ways;
        break;
      case Step::AllGather:
        local *= ways;
        seconds += shown[axis] * cost.allGather(local, {axis});
        break;
      case Step::AllToAll:
        seconds += cost.allToAll(local * ways, {axis});
        break;
      }
    }
    best = std::min(best, seconds);
    if (changed.size() == 1)
      break;
  }
  return best;
}

} // namespace cleave::search
