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
      return group.kind == run.kind && group.memory == run.memory && group.stageSizes == run.stageSizes &&
             group.hostSize == run.hostSize;
    });
    groupOfRun.push_back(same - groups.begin());
    if (same == groups.end())
      groups.push_back({run.kind, run.memory, run.stageSizes, run.hostSize, run.reserved || problem.sharesDevices});
  }
  return groups;
}

unsigned mostStagesOf(const StageProblem &problem) {
  uint64_t most = problem.sharesDevices ? problem.numLayers : 0;
  for (const DeviceRun &run : problem.runs)
    if (!run.stageSizes.empty() && run.stageSizes.front() > 0)
      most += run.count / run.stageSizes.front();
  most = std::min<uint64_t>(most, problem.numLayers);
  if (!problem.cuts.empty())
    most = std::min<uint64_t>(most, problem.cuts.size() - 1);
  most = std::min<uint64_t>(most, problem.schedule->mostStages(problem.microbatches));
  most = std::min<uint64_t>(most, problem.mostStages.value_or(most));
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
      bool takes = !run.reserved && !problem.sharesDevices;
      numDevices += takes ? run.count : 0;
      if (!run.stageSizes.empty())
        fewestDevices = std::min(fewestDevices, takes ? run.stageSizes.front() : 0);
    }
  }

  void make() {
    unsigned last = result.lastCut();
    for (unsigned first = 0; first < last; ++first) {
      result.begin.push_back(result.edges.size());
      addEdgesFrom(first);
      // Where each cut leads to the next one alone, there is no way around a gap.
      if (filter.mostCuts == 1 && result.edges.size() == result.begin.back())
        break;
    }
    result.begin.resize(last + 2, result.edges.size());
  }

private:
  /// Devices that stages from some cut may have; `shared` are those of runs that others may take.
  struct Part {
    unsigned group = 0, devices = 0, shared = 0;
    unsigned transfers = 0;
    bool isTooSlow = false; ///< For these layers, and so for more of them.
  };

  std::vector<unsigned> sizesOf(const RunGroup &group) const {
    if (!filter.sizeAt || group.stageSizes.empty())
      return group.stageSizes;
    return {group.stageSizes[std::min<size_t>(*filter.sizeAt, group.stageSizes.size() - 1)]};
  }

  /// Whether so many more stages find devices.
  bool leavesEnough(unsigned moreStages, unsigned shared) const {
    return shared + uint64_t(moreStages) * fewestDevices <= numDevices;
  }

  std::vector<Part> partsFrom(unsigned first) {
    std::vector<Part> parts;
    for (unsigned group = 0; group < result.groups.size(); ++group)
      for (unsigned devices : sizesOf(result.groups[group])) {
        unsigned shared = result.groups[group].reserved ? 0 : devices;
        if (!leavesEnough(first > 0, shared))
          continue;
        parts.push_back({group, devices, shared, static_cast<unsigned>(result.transfers.size())});
        StageTransfers &transfers = result.transfers.emplace_back();
        for (unsigned hop = 0; hop != numHops; ++hop)
          transfers[hop] =
              problem.transfers(costs, result.cuts[first], result.groups[group].kind, devices, static_cast<Hop>(hop));
      }
    return parts;
  }

  void addEdgesFrom(unsigned first) {
    std::vector<Part> parts = partsFrom(first);
    unsigned end = filter.mostCuts ? std::min(first + filter.mostCuts, result.lastCut()) : result.lastCut();
    for (unsigned last = first + 1; last <= end && !parts.empty(); ++last) {
      uint64_t classOf = costs.classOf(result.cuts[first], result.cuts[last]);
      for (Part &part : parts) {
        // One stage alone has no use for chunks.
        bool isAlone = first == 0 && last == result.lastCut();
        if ((isAlone && problem.chunks > 1) || !leavesEnough((first > 0) + (last < result.lastCut()), part.shared))
          continue;
        unsigned ways = waysOf(first, last, {classOf, part.group, part.devices});
        if (!result.ways[ways].ways.empty())
          result.edges.push_back({first, last, part.transfers, ways});
        else
          part.isTooSlow = !result.groups[part.group].reserved &&
                           (costs.growsWithLayers() || costs.isTooLong(result.cuts[first], result.cuts[last],
                                                                       result.groups[part.group].kind, part.devices));
      }
      std::erase_if(parts, [](const Part &part) { return part.isTooSlow; });
    }
  }

  StageWay makeWay(const StageOption &option, unsigned mostStages) const {
    StageWay way;
    way.mostStages = mostStages;
    way.ramp = problem.ramp(option);
    way.load = option.steadySeconds(problem.fullMicrobatches(), way.ramp);
    way.option = option;
    return way;
  }

  /// The ways to run an interval that are worth an edge: an index into `result.ways`.
  unsigned waysOf(unsigned first, unsigned last, const IntervalKey &key) {
    auto [found, isNew] = known.try_emplace(key, result.ways.size());
    if (!isNew)
      return found->second;
    const RunGroup &group = result.groups[key.group];
    std::vector<StageWay> all;
    for (const StageOption &option : costs.options(result.cuts[first], result.cuts[last], group.kind, key.devices)) {
      unsigned most = filter.ignoreMemory ? mostStages : stagesInMemory(option, group.memory);
      if (most > 0 && option.seconds() <= filter.mostSeconds)
        all.push_back(makeWay(option, most));
    }
    std::stable_sort(all.begin(), all.end(), [](const StageWay &a, const StageWay &b) {
      return std::tie(a.ramp, a.load, a.option.perStep) < std::tie(b.ramp, b.load, b.option.perStep);
    });
    StageWays &kept = result.ways.emplace_back(key.group, key.devices);
    for (const StageWay &way : all)
      if (filter.ignoreMemory || std::none_of(kept.ways.begin(), kept.ways.end(), [&](const StageWay &other) {
            return other.load <= way.load && other.option.perStep <= way.option.perStep &&
                   other.mostStages >= way.mostStages;
          }))
        kept.ways.push_back(way);
    return found->second;
  }

  /// How many stages may be left for the option to fit; 0 where it never does.
  unsigned stagesInMemory(const StageOption &option, double memory) const {
    auto fits = [&](unsigned stages) {
      return option.fixedBytes + problem.inFlight(stages) * option.microbatchBytes <= memory;
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
  unsigned fewestDevices = std::numeric_limits<unsigned>::max(); ///< Of any stage, that others may take.
  std::unordered_map<IntervalKey, unsigned, IntervalHash> known; ///< Indices into `result.ways`.
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
