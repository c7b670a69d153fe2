// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes edges of the options that intervals have, once for intervals of one class.

#include "passes/planner/stages/StageEdges.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace cleave::stages {

std::vector<RunGroup> groupsOf(const StageProblem &problem, std::vector<unsigned> &groupOfRun) {
  std::vector<RunGroup> groups;
  for (const DeviceRun &run : problem.runs) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const RunGroup &group) {
      return group.kind == run.kind && group.memory == run.memory && group.stageSizes == run.stageSizes;
    });
    groupOfRun.push_back(same - groups.begin());
    if (same == groups.end())
      groups.push_back({run.kind, run.memory, run.stageSizes});
  }
  return groups;
}

unsigned mostStagesOf(const StageProblem &problem) {
  uint64_t most = 0;
  for (const DeviceRun &run : problem.runs)
    if (!run.stageSizes.empty() && run.stageSizes.front() > 0)
      most += run.count / run.stageSizes.front();
  most = std::min<uint64_t>(most, problem.numLayers);
  return std::min<uint64_t>(most, problem.numStages.value_or(most));
}

namespace {

/// What options are asked for.
struct IntervalKey {
  uint64_t classOf = 0;
  unsigned group = 0, devices = 0;
  bool operator==(const IntervalKey &) const = default;
};

struct IntervalHash {
  size_t operator()(const IntervalKey &key) const {
    uint64_t devices = uint64_t(key.group) << 32 | key.devices;
    return (key.classOf ^ devices * 0x9e3779b97f4a7c15) * 0x9e3779b97f4a7c15 >> 7;
  }
};

class EdgeMaker {
public:
  EdgeMaker(const StageProblem &problem, StageCosts &costs, StageEdges &result, const EdgeFilter &filter)
      : problem(problem), costs(costs), result(result), filter(filter), mostStages(mostStagesOf(problem)) {
    for (const DeviceRun &run : problem.runs) {
      numDevices += run.count;
      if (!run.stageSizes.empty())
        fewestDevices = std::min(fewestDevices, run.stageSizes.front());
    }
  }

  void make() {
    unsigned last = result.lastCut();
    for (unsigned first = 0; first < last; ++first) {
      result.begin.push_back(result.edges.size());
      for (unsigned group = 0; group < result.groups.size(); ++group)
        for (unsigned size : sizesOf(result.groups[group]))
          addEdgesFrom(first, group, size);
      std::stable_sort(result.edges.begin() + result.begin.back(), result.edges.end(),
                       [](const StageEdge &a, const StageEdge &b) {
                         return std::tie(a.last, a.group, a.devices) < std::tie(b.last, b.group, b.devices);
                       });
    }
    result.begin.resize(last + 2, result.edges.size());
  }

private:
  std::vector<unsigned> sizesOf(const RunGroup &group) const {
    if (!filter.sizeAt || group.stageSizes.empty())
      return group.stageSizes;
    return {group.stageSizes[std::min<size_t>(*filter.sizeAt, group.stageSizes.size() - 1)]};
  }

  /// Whether so many more stages find devices.
  bool leavesEnough(unsigned moreStages, unsigned devices) const {
    return devices + uint64_t(moreStages) * fewestDevices <= numDevices;
  }

  void addEdgesFrom(unsigned first, unsigned group, unsigned devices) {
    if (!leavesEnough(first > 0, devices))
      return;
    double transfers = first == 0 ? 0 : 2 * costs.transferSeconds(result.cuts[first], devices);
    unsigned end = filter.mostCuts ? std::min(first + filter.mostCuts, result.lastCut()) : result.lastCut();
    for (unsigned last = first + 1; last <= end; ++last) {
      if (!leavesEnough((first > 0) + (last < result.lastCut()), devices))
        continue;
      const std::vector<StageEdge> &kept = keptOptions(result.cuts[first], result.cuts[last], group, devices);
      bool anyFast = false;
      for (StageEdge edge : kept) {
        if (edge.option.seconds() > filter.mostSeconds)
          continue;
        anyFast = true;
        edge.first = first;
        edge.last = last;
        edge.total = edge.filling + transfers;
        result.edges.push_back(edge);
      }
      if (!anyFast && costs.growsWithLayers())
        return;
    }
  }

  StageEdge makeEdge(const StageOption &option, unsigned group, unsigned devices, unsigned mostStages) const {
    StageEdge edge;
    edge.group = group;
    edge.devices = devices;
    edge.mostStages = mostStages;
    edge.filling = fillingSeconds(problem.schedule, option.seconds(), option.backwardWeight);
    edge.load = problem.microbatches * option.seconds() - edge.filling;
    edge.option = option;
    return edge;
  }

  /// The options of an interval that are worth an edge, those that add the least to the sum first.
  const std::vector<StageEdge> &keptOptions(unsigned first, unsigned last, unsigned group, unsigned devices) {
    auto [found, isNew] = known.try_emplace(IntervalKey{costs.classOf(first, last), group, devices});
    std::vector<StageEdge> &kept = found->second;
    if (!isNew)
      return kept;
    std::vector<StageEdge> all;
    for (const StageOption &option : costs.options(first, last, result.groups[group].kind, devices))
      if (unsigned most = filter.ignoreMemory ? mostStages : stagesInMemory(option, result.groups[group].memory))
        all.push_back(makeEdge(option, group, devices, most));
    std::stable_sort(all.begin(), all.end(), [](const StageEdge &a, const StageEdge &b) {
      return std::tie(a.filling, a.load, a.option.perStep) < std::tie(b.filling, b.load, b.option.perStep);
    });
    for (const StageEdge &edge : all)
      if (filter.ignoreMemory || std::none_of(kept.begin(), kept.end(), [&](const StageEdge &other) {
            return other.load <= edge.load && other.option.perStep <= edge.option.perStep &&
                   other.mostStages >= edge.mostStages;
          }))
        kept.push_back(edge);
    return kept;
  }

  /// How many stages may be left for the option to fit; 0 where it never does.
  unsigned stagesInMemory(const StageOption &option, double memory) const {
    auto fits = [&](unsigned stages) {
      unsigned inFlight = microbatchesInFlight(problem.schedule, 0, stages, problem.microbatches);
      return option.fixedBytes + inFlight * option.microbatchBytes <= memory;
    };
    unsigned low = 0, high = mostStages;
    while (low < high) {
      unsigned middle = low + (high - low + 1) / 2;
      if (fits(middle))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  const StageProblem &problem;
  StageCosts &costs;
  StageEdges &result;
  const EdgeFilter &filter;
  unsigned mostStages;
  uint64_t numDevices = 0;
  unsigned fewestDevices = std::numeric_limits<unsigned>::max(); ///< Of any stage.
  std::unordered_map<IntervalKey, std::vector<StageEdge>, IntervalHash> known;
};

} // namespace

StageEdges makeEdges(const StageProblem &problem, StageCosts &costs, std::vector<unsigned> cuts,
                     std::vector<RunGroup> groups, const EdgeFilter &filter) {
  StageEdges result;
  result.cuts = std::move(cuts);
  result.groups = std::move(groups);
  EdgeMaker(problem, costs, result, filter).make();
  return result;
}

} // namespace cleave::stages
