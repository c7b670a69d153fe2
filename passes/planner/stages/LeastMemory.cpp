// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bisects the bytes of the fullest device.

#include "passes/planner/stages/LeastMemory.h"

#include <algorithm>

namespace cleave::stages {

namespace {

class LeastMemory {
public:
  LeastMemory(const StageProblem &problem, const StageEdges &edges, const std::vector<unsigned> &order,
              const std::vector<unsigned> &groupOfRun)
      : edges(edges), most(mostStagesOf(problem)), fixed(problem.numStages) {
    unsigned position = 0;
    for (size_t i = order.size(); i-- > 0;) {
      const DeviceRun &run = problem.runs[order[i]];
      parts.push_back({groupOfRun[order[i]], position, position + run.count});
      position += run.count;
    }
    numPositions = position;
    for (unsigned stages = 0; stages <= most; ++stages)
      inFlight.push_back(stages ? problem.inFlight(stages) : 0);
  }

  double find(double toBeat) {
    double high = fullest(toBeat);
    double low = 0;
    // Every path found is exact: once nothing is below it, it is the least.
    while (high < infinity && high > 0) {
      if (fullest(high) == infinity)
        return high;
      double middle = low + (high - low) / 2, found = fullest(middle);
      if (found < infinity)
        high = found;
      else if (low == middle)
        return high;
      else
        low = middle;
    }
    return high;
  }

private:
  struct Part {
    unsigned group, low, high;
  };
  struct State {
    unsigned positions = unreachable; ///< The fewest devices from the end of the pipeline.
    unsigned last = 0;                ///< The stage ends there, and takes so many bytes.
    double bytes = 0;
    bool isFewer = false; ///< Best with fewer stages.
  };

  double bytesOf(const StageOption &option, unsigned stagesLeft) const {
    return option.fixedBytes + inFlight[stagesLeft] * option.microbatchBytes;
  }

  /// The bytes of an edge's first way that stays below `bytes`.
  std::optional<double> bytesOf(const StageEdge &edge, unsigned stagesLeft, double bytes) const {
    for (const StageWay &way : edges.ways[edge.ways].ways)
      if (double own = bytesOf(way.option, stagesLeft); own < bytes)
        return own;
    return std::nullopt;
  }

  /// The bytes of the fullest device of some path that stays below `bytes`; infinity where there is none.
  double fullest(double bytes) const {
    unsigned end = edges.lastCut();
    std::vector<std::vector<State>> levels(1, std::vector<State>(end + 1));
    levels[0][end].positions = 0;
    for (unsigned stagesLeft = 1; stagesLeft <= most; ++stagesLeft) {
      std::vector<State> here(end + 1);
      bool anyBetter = false;
      for (unsigned cut = end + 1; cut-- > 0;) {
        unsigned before = levels.back()[cut].positions;
        if (!fixed)
          here[cut] = {before, 0, 0, true};
        for (size_t i = edges.begin[cut]; i < edges.begin[cut + 1]; ++i)
          if (std::optional<double> own = bytesOf(edges.edges[i], stagesLeft, bytes))
            improve(edges.edges[i], *own, levels.back()[edges.edges[i].last].positions, here[cut]);
        anyBetter |= here[cut].positions < before;
      }
      levels.push_back(std::move(here));
      if (!anyBetter && !fixed)
        break;
    }
    if ((fixed && levels.size() != *fixed + 1) || levels.back().front().positions > numPositions)
      return infinity;
    return bytesOfPath(levels);
  }

  void improve(const StageEdge &edge, double bytes, unsigned after, State &state) const {
    if (after == unreachable)
      return;
    const StageWays &ways = edges.ways[edge.ways];
    if (edges.groups[ways.group].reserved && after < state.positions)
      state = {after, edge.last, bytes, false};
    for (const Part &part : parts) {
      unsigned position = std::max(after, part.low) + ways.devices;
      if (part.group == ways.group && position <= part.high && position < state.positions)
        state = {position, edge.last, bytes, false};
    }
  }

  double bytesOfPath(const std::vector<std::vector<State>> &levels) const {
    double bytes = 0;
    unsigned cut = 0;
    for (size_t level = levels.size() - 1; cut != edges.lastCut();) {
      const State &state = levels[level--][cut];
      if (state.isFewer)
        continue;
      bytes = std::max(bytes, state.bytes);
      cut = state.last;
    }
    return bytes;
  }

  const StageEdges &edges;
  std::vector<Part> parts;
  std::vector<double> inFlight; ///< By stages left.
  unsigned numPositions = 0, most;
  std::optional<unsigned> fixed;
};

} // namespace

double leastBytes(const StageProblem &problem, const StageEdges &edges, const std::vector<unsigned> &order,
                  const std::vector<unsigned> &groupOfRun, double toBeat) {
  return LeastMemory(problem, edges, order, groupOfRun).find(toBeat);
}

} // namespace cleave::stages
