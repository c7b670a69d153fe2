// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The best-first search over cells of bounds.

#include "passes/planner/stages/BoundSearch.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace cleave::stages {

namespace {

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// Of all ways, and of transfers that take longer than some of them.
std::vector<double> loadsOf(const StageEdges &edges) {
  std::vector<double> loads;
  for (const StageWays &alike : edges.ways)
    for (const StageWay &way : alike.ways)
      loads.push_back(way.load);
  if (loads.empty())
    return loads;
  double least = *std::min_element(loads.begin(), loads.end());
  for (const StageTransfers &transfers : edges.transfers)
    for (const Transfers &own : transfers)
      if (own.load > least && own.load < infinity)
        loads.push_back(own.load);
  return sorted(std::move(loads));
}

std::vector<double> perStepsOf(const StageEdges &edges) {
  std::vector<double> perSteps;
  for (const StageWays &alike : edges.ways)
    for (const StageWay &way : alike.ways)
      perSteps.push_back(way.option.perStep);
  return sorted(std::move(perSteps));
}

/// Indices of values, both ends included.
struct Range {
  size_t low = 0, high = 0;
  bool isEmpty() const { return low > high; }
};

struct Cell {
  double bound = 0;    ///< No plan of the cell takes less seconds.
  double leastSum = 0; ///< No path of the cell has a smaller sum.
  Range load, perStep;
  bool operator<(const Cell &other) const {
    return std::tie(bound, load.low, perStep.low) > std::tie(other.bound, other.load.low, other.perStep.low);
  }
};

class BoundSearch {
public:
  BoundSearch(const StageProblem &problem, const StageEdges &edges, const BoundValues &values,
              const std::vector<unsigned> &order, const std::vector<unsigned> &groupOfRun, Incumbent &best)
      : problem(problem), edges(edges), order(order), groupOfRun(groupOfRun), best(best),
        program(problem, edges, placed(order, groupOfRun)), loads(values.loads), perSteps(values.perSteps) {}

  double run() {
    if (loads.empty())
      return best.seconds;
    push(0, {0, loads.size() - 1}, {0, perSteps.size() - 1});
    while (!cells.empty()) {
      Cell cell = cells.top();
      if (cell.bound >= cutOff())
        break;
      if (best.mustEnd())
        return std::min({cell.bound, unresolved, best.seconds});
      cells.pop();
      uint64_t before = program.work();
      explore(cell);
      best.work += program.work() - before;
    }
    return std::min(unresolved, best.seconds);
  }

private:
  std::vector<PlacedRun> placed(const std::vector<unsigned> &order, const std::vector<unsigned> &groupOfRun) const {
    std::vector<PlacedRun> runs;
    runs.reserve(order.size());
    for (unsigned run : order)
      runs.push_back({problem.runs[run].count, groupOfRun[run]});
    return runs;
  }

  /// What is no better than the incumbent but for rounding is not worth searching.
  double cutOff() const { return best.seconds * (1 - 1e-12); }

  double boundOf(double leastSum, Range load, Range perStep) const {
    return leastSum + loads[load.low] + perSteps[perStep.low];
  }

  void push(double leastSum, Range load, Range perStep) {
    if (load.isEmpty() || perStep.isEmpty())
      return;
    double bound = boundOf(leastSum, load, perStep);
    if (bound < cutOff())
      cells.push({bound, leastSum, load, perStep});
  }

  /// The largest values of a cell that can still beat the incumbent.
  void trim(Cell &cell) const {
    auto trimRange = [&](Range &range, const std::vector<double> &values) {
      double rest = cell.bound - values[range.low];
      auto end = std::partition_point(values.begin() + range.low, values.begin() + range.high + 1,
                                      [&](double value) { return rest + value < cutOff(); });
      range.high = std::max<size_t>(end - values.begin(), range.low + 1) - 1;
    };
    trimRange(cell.load, loads);
    trimRange(cell.perStep, perSteps);
  }

  void explore(Cell cell) {
    trim(cell);
    double mostSum = best.seconds - loads[cell.load.low] - perSteps[cell.perStep.low];
    if (!program.select({loads[cell.load.high], perSteps[cell.perStep.high]}, mostSum) ||
        !canWin(cell, program.leastSum()))
      return;
    StagePath path = program.relaxed();
    if (!path.isFeasible() || !canWin(cell, path.sum))
      return;
    if (!program.isPermitted(path)) {
      if (!program.canBeExact()) {
        divide(cell, path.sum);
        return;
      }
      path = program.exact();
      if (!path.isFeasible() || !canWin(cell, path.sum))
        return;
    }
    take(path);
    split(cell, path);
  }

  bool canWin(const Cell &cell, double leastSum) const { return boundOf(leastSum, cell.load, cell.perStep) < cutOff(); }

  void take(const StagePath &path) {
    double seconds = path.sum + path.load + path.perStep;
    if (seconds >= cutOff())
      return;
    best.seconds = seconds;
    best.stages.clear();
    for (const auto &[edge, way, run] : path.stages) {
      const StageWays &ways = edges.ways[edge->ways];
      auto isOfGroup = [&](unsigned group) { return group == ways.group; };
      auto reserved =
          static_cast<unsigned>(std::find_if(groupOfRun.begin(), groupOfRun.end(), isOfGroup) - groupOfRun.begin());
      best.stages.push_back({edges.cuts[edge->first], edges.cuts[edge->last],
                             run == StagePath::noRun ? reserved : order[run], ways.devices, way->option});
    }
    if (best.progress)
      best.progress(seconds);
  }

  /// Plans of the cell with both maxima at least those of the path are no better than it. The others have a smaller
  /// load, or smaller seconds a step.
  void split(const Cell &cell, const StagePath &path) {
    auto indexOf = [](const std::vector<double> &values, double value) {
      return static_cast<size_t>(std::lower_bound(values.begin(), values.end(), value) - values.begin());
    };
    size_t load = std::max(indexOf(loads, path.load), cell.load.low);
    size_t perStep = std::max(indexOf(perSteps, path.perStep), cell.perStep.low);
    if (perStep > cell.perStep.low)
      pushHalves(path.sum, {load, cell.load.high}, {cell.perStep.low, perStep - 1});
    if (load > cell.load.low)
      pushHalves(path.sum, {cell.load.low, load - 1}, cell.perStep);
  }

  /// What is too large may be small enough with smaller bounds; a cell that cannot be divided stays unresolved.
  void divide(const Cell &cell, double leastSum) {
    if (cell.load.low == cell.load.high && cell.perStep.low == cell.perStep.high)
      unresolved = std::min(unresolved, boundOf(leastSum, cell.load, cell.perStep));
    else
      pushHalves(leastSum, cell.load, cell.perStep);
  }

  /// Cuts the range that makes more of a difference.
  void pushHalves(double leastSum, Range load, Range perStep) {
    double spread = loads[load.high] - loads[load.low];
    bool cutLoad = spread >= perSteps[perStep.high] - perSteps[perStep.low];
    Range &cut = cutLoad ? load : perStep;
    Range whole = cut;
    size_t middle = whole.low + (whole.high - whole.low) / 2;
    cut = {whole.low, middle};
    push(leastSum, load, perStep);
    cut = {middle + 1, whole.high};
    push(leastSum, load, perStep);
  }

  const StageProblem &problem;
  const StageEdges &edges;
  const std::vector<unsigned> &order, &groupOfRun;
  Incumbent &best;
  StageProgram program;
  const std::vector<double> &loads, &perSteps;
  std::priority_queue<Cell> cells;
  double unresolved = std::numeric_limits<double>::infinity(); ///< The bound of cells that were given up.
};

} // namespace

BoundValues::BoundValues(const StageEdges &edges) : loads(loadsOf(edges)), perSteps(perStepsOf(edges)) {}

double BoundValues::least() const {
  return loads.empty() ? std::numeric_limits<double>::infinity() : loads.front() + perSteps.front();
}

double searchBounds(const StageProblem &problem, const StageEdges &edges, const BoundValues &values,
                    const std::vector<unsigned> &order, const std::vector<unsigned> &groupOfRun, Incumbent &best) {
  return BoundSearch(problem, edges, values, order, groupOfRun, best).run();
}

} // namespace cleave::stages
