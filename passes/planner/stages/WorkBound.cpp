// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the run of equal layers, and how fast devices can pass it.

#include "passes/planner/stages/WorkBound.h"

#include <algorithm>

namespace cleave::stages {

/// The longest run of layers that are each of one class: its first layer and the one behind it.
static std::pair<unsigned, unsigned> longestRun(unsigned numLayers, StageCosts &costs) {
  std::pair<unsigned, unsigned> longest = {0, 0};
  for (unsigned first = 0; first < numLayers;) {
    unsigned last = first + 1;
    while (last < numLayers && costs.classOf(last, last + 1) == costs.classOf(first, first + 1))
      ++last;
    if (last - first > longest.second - longest.first)
      longest = {first, last};
    first = last;
  }
  return longest;
}

/// The least that an option adds on a share of all devices, with what one stage keeps in flight; infinity where none
/// fits or takes at most `mostSeconds`.
static double leastAdded(const std::vector<StageOption> &options, const StageProblem &problem, double memory,
                         double share, double mostSeconds) {
  double inFlight = problem.inFlight(1);
  double least = infinity;
  for (const StageOption &option : options) {
    if (option.fixedBytes + inFlight * option.microbatchBytes > memory || option.seconds() > mostSeconds)
      continue;
    double ramp = problem.ramp(option);
    least = std::min(least, ramp + option.steadySeconds(problem.fullMicrobatches(), ramp) * share);
  }
  return least;
}

double workBound(const StageProblem &problem, StageCosts &costs, const std::vector<RunGroup> &groups,
                 double mostSeconds) {
  if (!costs.growsWithLayers() || std::any_of(groups.begin(), groups.end(), [](auto &group) { return group.reserved; }))
    return 0;
  double numDevices = 0;
  for (const DeviceRun &run : problem.runs)
    numDevices += run.count;
  auto [begin, end] = longestRun(problem.numLayers, costs);
  double ofLayer = infinity;
  for (const RunGroup &group : groups)
    for (unsigned devices : group.stageSizes)
      for (unsigned length = 1; length <= end - begin;) {
        unsigned next = std::max(length + 1, length + length / 16);
        double added = leastAdded(costs.options(begin, begin + length, group.kind, devices), problem, group.memory,
                                  devices / numDevices, mostSeconds);
        if (added == infinity)
          break;
        // The stages up to the next length add no less.
        ofLayer = std::min(ofLayer, added / std::min(next - 1, end - begin));
        length = next;
      }
  return (end - begin) * ofLayer;
}

} // namespace cleave::stages
