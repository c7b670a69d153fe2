// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selects edges, and finds the paths with the least sum.

#include "passes/planner/stages/StageProgram.h"

#include "passes/planner/stages/ShiftedSums.h"

#include <algorithm>
#include <numeric>

namespace cleave::stages {

/// Entries of all levels: a quarter of a GiB.
static constexpr size_t mostEntries = size_t(1) << 25;

/// What an edge that is looked at takes, in steps of the loops over positions, of which processors take several at
/// once.
static constexpr uint64_t stepsOfEdge = 3;

//===-- selection ---------------------------------------------------------------------------------------------===//

/// Within the bounds only the sum and the memory matter between ways for the same layers and devices.
void StageProgram::selectWays(StageBounds bounds) {
  selected.resize(edges.ways.size());
  for (size_t i = 0; i < selected.size(); ++i) {
    selected[i].clear();
    steps += stepsOfEdge * edges.ways[i].ways.size();
    // The one that adds least comes first: a later one is worth what it adds only for its memory.
    unsigned most = 0;
    for (const StageWay &way : edges.ways[i].ways)
      if (way.load <= bounds.load && way.option.perStep <= bounds.perStep && way.mostStages > most) {
        most = way.mostStages;
        selected[i].push_back(&way);
      }
  }
}

bool StageProgram::select(StageBounds bounds, double mostSum) {
  selectWays(bounds);
  unsigned end = edges.lastCut();
  stepsFrom.resize(end + 1);
  leastStages.assign(end + 1, unreachable);
  freeSum.assign(end + 1, infinity);
  leastStages[end] = 0;
  freeSum[end] = 0;
  for (unsigned cut = end; cut-- > 0;) {
    stepsFrom[cut].clear();
    steps += stepsOfEdge * (edges.begin[cut + 1] - edges.begin[cut]);
    for (size_t i = edges.begin[cut]; i < edges.begin[cut + 1]; ++i) {
      const StageEdge &edge = edges.edges[i];
      const std::vector<const StageWay *> &ways = selected[edge.ways];
      // Ways that add less come first.
      if (leastStages[edge.last] == unreachable || ways.empty() || ways.front()->ramp + freeSum[edge.last] > mostSum)
        continue;
      const StageWays &alike = edges.ways[edge.ways];
      std::array<double, numHops> transfers;
      for (unsigned hop = 0; hop != numHops; ++hop) {
        const Transfers &own = edges.transfers[edge.transfers][hop];
        transfers[hop] = own.load <= bounds.load ? own.ramp : infinity;
      }
      double least = *std::min_element(transfers.begin(), transfers.end());
      if (least == infinity)
        continue;
      for (const StageWay *way : ways) {
        double sum = way->ramp + least + freeSum[edge.last];
        if (way->mostStages <= leastStages[edge.last] || sum > mostSum)
          continue;
        Step &step = stepsFrom[cut].emplace_back(
            Step{&edge, way, edge.last, alike.group, alike.devices, 0, way->mostStages, transfers});
        for (double &total : step.totals)
          total += way->ramp;
        leastStages[cut] = std::min(leastStages[cut], leastStages[edge.last] + 1);
        freeSum[cut] = std::min(freeSum[cut], sum);
      }
    }
  }
  if (leastStages.front() == unreachable || (problem.numStages && leastStages.front() > *problem.numStages))
    return false;
  leaveOutAbove(mostSum);
  std::vector<unsigned> units(edges.groups.size(), 0);
  for (const std::vector<Step> &from : stepsFrom)
    for (const Step &step : from)
      if (!isReserved(step))
        units[step.group] = std::gcd(units[step.group], step.devices);
  if (problem.useAllDevices)
    for (const PlacedRun &run : runs)
      if (units[run.group] == 0 || run.count % units[run.group] != 0)
        return false;
  layOutRuns(units);
  return findBands();
}

/// Leaves out what is on no path from the first cut to the last one whose sum, on any number of devices, is at most
/// that.
void StageProgram::leaveOutAbove(double mostSum) {
  std::vector<double> before(stepsFrom.size(), infinity);
  before.front() = 0;
  for (unsigned cut = 0; cut != edges.lastCut(); ++cut) {
    steps += stepsOfEdge * stepsFrom[cut].size();
    std::erase_if(stepsFrom[cut], [&](const Step &step) {
      double sum = before[cut] + *std::min_element(step.totals.begin(), step.totals.end());
      if (sum + freeSum[step.last] > mostSum)
        return true;
      before[step.last] = std::min(before[step.last], sum);
      return false;
    });
  }
}

void StageProgram::layOutRuns(const std::vector<unsigned> &units) {
  parts.clear();
  numPositions = 0;
  for (size_t i = runs.size(); i-- > 0;) {
    unsigned unit = std::max(units[runs[i].group], 1u), count = units[runs[i].group] ? runs[i].count / unit : 0;
    Part &part = parts.emplace_back(Part{runs[i].group, unit, numPositions, numPositions + count, {}});
    for (unsigned position = part.low + 1; position <= part.high; ++position)
      part.crosses.push_back(hopAt(part, position) == Hop::BetweenHosts);
    numPositions += count;
  }
  for (std::vector<Step> &from : stepsFrom)
    for (Step &step : from)
      step.units = isReserved(step) ? 0 : step.devices / std::max(units[step.group], 1u);
}

/// The fewest positions that the layers after a cut need, and the most that the layers before it leave.
bool StageProgram::findBands() {
  unsigned end = edges.lastCut();
  lowest.assign(end + 1, unreachable);
  highest.assign(end + 1, 0);
  lowest[end] = 0;
  for (const std::vector<Step> &from : stepsFrom)
    steps += stepsOfEdge * 2 * from.size() * parts.size();
  for (unsigned cut = end; cut-- > 0;)
    for (const Step &step : stepsFrom[cut]) {
      unsigned after = lowest[step.last];
      if (after == unreachable)
        continue;
      if (isReserved(step))
        lowest[cut] = std::min(lowest[cut], after);
      for (const Part &part : parts)
        if (part.group == step.group && std::max(after, part.low) + step.units <= part.high)
          lowest[cut] = std::min(lowest[cut], std::max(after, part.low) + step.units);
    }
  if (lowest.front() > numPositions)
    return false;
  highest.front() = numPositions;
  for (unsigned cut = 0; cut < end; ++cut)
    for (const Step &step : stepsFrom[cut]) {
      if (isReserved(step))
        highest[step.last] = std::max(highest[step.last], highest[cut]);
      for (const Part &part : parts)
        if (part.group == step.group && std::min(highest[cut], part.high) >= part.low + step.units)
          highest[step.last] = std::max(highest[step.last], std::min(highest[cut], part.high) - step.units);
    }
  rows.assign(1, 0);
  for (unsigned cut = 0; cut <= end; ++cut)
    rows.push_back(rows.back() + (lowest[cut] <= highest[cut] ? highest[cut] - lowest[cut] + 1 : 0));
  return true;
}

bool StageProgram::isPermitted(const StagePath &path) const {
  if (problem.numStages && *problem.numStages != path.stages.size())
    return false;
  for (size_t i = 0; i < path.stages.size(); ++i)
    if (path.stages[i].way->mostStages < path.stages.size() - i)
      return false;
  return true;
}

//===-- the programme -----------------------------------------------------------------------------------------===//

/// Improves the sums from `cut` by stages on reserved runs, which leave as many devices as they find.
void StageProgram::improveReserved(unsigned cut, std::vector<double> &here, const std::vector<double> &after,
                                   unsigned stagesLeft) {
  for (const Step &step : stepsFrom[cut]) {
    unsigned next = step.last;
    if (!isReserved(step) || step.mostStages < stagesLeft || lowest[next] > highest[next])
      continue;
    unsigned low = std::max(lowest[cut], lowest[next]), high = std::min(highest[cut], highest[next]);
    if (low > high)
      continue;
    lower(&here[at(cut, low)], &after[at(next, low)], step.totals[unsigned(Hop::BetweenRuns)], high - low + 1);
    steps += high - low + 1;
  }
}

/// Improves the sums from `cut` by stages that begin there, followed by those of `after`.
void StageProgram::improve(unsigned cut, std::vector<double> &here, const std::vector<double> &after,
                           unsigned stagesLeft) {
  if (lowest[cut] > highest[cut])
    return;
  improveReserved(cut, here, after, stagesLeft);
  for (const Part &part : parts) {
    for (const Step &step : stepsFrom[cut]) {
      unsigned next = step.last;
      if (step.group != part.group || step.mostStages < stagesLeft || lowest[next] > highest[next])
        continue;
      unsigned low = std::max({lowest[cut], std::max(lowest[next], part.low) + step.units});
      unsigned high = std::min({highest[cut], highest[next] + step.units, part.high});
      if (low > high)
        continue;
      steps += high - low + 1;
      auto [withinHost, betweenHosts, betweenRuns] = step.totals;
      if (high == part.high) {
        lower(&here[at(cut, high)], &after[at(next, high - step.units)], betweenRuns, 1);
        if (high-- == low)
          continue;
      }
      double *__restrict to = &here[at(cut, low)];
      const double *__restrict from = &after[at(next, low - step.units)];
      if (withinHost == betweenHosts)
        lower(to, from, withinHost, high - low + 1);
      else
        lowerByHost(to, from, withinHost, betweenHosts, &part.crosses[low - part.low - 1], high - low + 1);
    }
    if (problem.useAllDevices)
      continue;
    // The devices of the run that are left stay idle.
    if (part.low < lowest[cut])
      continue;
    double rest = part.low <= highest[cut] ? here[at(cut, part.low)] : infinity;
    for (unsigned position = part.low + 1; position <= std::min(part.high, highest[cut]); ++position)
      here[at(cut, position)] = std::min(here[at(cut, position)], rest);
  }
}

/// Nothing is left to do at the last cut, with no devices left or, where they may be idle, any number.
void StageProgram::beginLevels() {
  if (levels.empty())
    levels.emplace_back();
  levels.front().assign(rows.back(), infinity);
  unsigned end = edges.lastCut();
  std::fill_n(levels.front().begin() + rows[end], problem.useAllDevices ? 1 : highest[end] + 1, 0.0);
}

StagePath StageProgram::relaxed() {
  beginLevels();
  for (unsigned cut = edges.lastCut(); cut-- > 0;)
    improve(cut, levels.front(), levels.front(), 0);
  return pathFrom(0, true);
}

/// The most stages that a path of selected edges can have.
unsigned StageProgram::mostStages() const {
  std::vector<unsigned> fewest(edges.groups.size(), unreachable);
  for (const std::vector<Step> &from : stepsFrom)
    for (const Step &step : from)
      fewest[step.group] = std::min(fewest[step.group], step.units);
  unsigned most = std::count_if(edges.groups.begin(), edges.groups.end(), [](auto &group) { return group.reserved; });
  if (problem.sharesDevices)
    most = edges.lastCut();
  for (const Part &part : parts)
    most += (part.high - part.low) / fewest[part.group];
  return std::min({most, edges.lastCut(), mostStagesOf(problem)});
}

bool StageProgram::canBeExact() const { return rows.back() * (mostStages() + 1) <= mostEntries; }

StagePath StageProgram::exact() {
  unsigned most = mostStages();
  bool fixed = problem.numStages.has_value();
  beginLevels();
  for (unsigned stagesLeft = 1; stagesLeft <= most; ++stagesLeft) {
    if (levels.size() == stagesLeft)
      levels.emplace_back();
    const std::vector<double> &after = levels[stagesLeft - 1];
    std::vector<double> &here = levels[stagesLeft];
    if (fixed)
      here.assign(after.size(), infinity);
    else
      here = after;
    for (unsigned cut = edges.lastCut(); cut-- > 0;)
      if (leastStages[cut] <= stagesLeft)
        improve(cut, here, after, stagesLeft);
    steps += here.size();
    // One more stage that helps nowhere will not help later: fewer and fewer edges fit.
    if (!fixed && here == after)
      return pathFrom(stagesLeft, false);
  }
  if (fixed && most != *problem.numStages)
    return {};
  return pathFrom(most, false);
}

const StageProgram::Part *StageProgram::partOf(unsigned position) const {
  for (const Part &part : parts)
    if (part.low < position && position <= part.high)
      return &part;
  return nullptr;
}

/// Walks the sums forward again: at each state the first edge that attains the sum.
StagePath StageProgram::pathFrom(size_t level, bool isRelaxed) const {
  StagePath path;
  unsigned cut = 0, position = highest.front();
  double sum = levels[level][at(cut, position)];
  if (sum == infinity)
    return path;
  while (cut != edges.lastCut()) {
    double value = levels[level][at(cut, position)];
    if (!isRelaxed && !problem.numStages && level > 0 && levels[level - 1][at(cut, position)] == value) {
      --level;
      continue;
    }
    const Part *part = partOf(position);
    size_t below = isRelaxed ? level : level - 1;
    auto attains = [&](const Step &step) {
      unsigned low = isReserved(step) ? 0 : part && step.group == part->group ? part->low : unreachable;
      return low != unreachable && lowest[step.last] <= highest[step.last] && (isRelaxed || step.mostStages >= level) &&
             position >= std::max(low, lowest[step.last]) + step.units &&
             levels[below][at(step.last, position - step.units)] + step.totals[unsigned(hopOf(step, part, position))] ==
                 value;
    };
    auto taken = std::find_if(stepsFrom[cut].begin(), stepsFrom[cut].end(), attains);
    if (taken == stepsFrom[cut].end()) {
      position = part->low;
      continue;
    }
    // Parts are the runs from the last one on.
    unsigned run = isReserved(*taken) ? StagePath::noRun : static_cast<unsigned>(&parts.back() - part);
    path.stages.push_back({taken->edge, taken->way, run});
    Hop hop = hopOf(*taken, part, position);
    path.load = std::max({path.load, taken->way->load, edges.transfers[taken->edge->transfers][unsigned(hop)].load});
    path.perStep = std::max(path.perStep, taken->way->option.perStep);
    cut = taken->last;
    position -= taken->units;
    level = below;
  }
  path.sum = sum;
  return path;
}

} // namespace cleave::stages
