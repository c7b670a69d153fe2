// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Candidates first, then the first move that helps, again and again.

#include "passes/planner/placement/Place.h"
#include "passes/planner/placement/ListScheduling.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

namespace cleave::placement {
namespace {

/// Tasks that all schedules tried may have together, so that large graphs end in time.
constexpr double mostScheduledTasks = 5e6;
/// A gain smaller than this share is rounding.
constexpr double rounding = 1e-9;

class Search {
public:
  Search(const PlacementProblem &problem, const TaskGraph &graph, const PlaceOptions &options)
      : problem(problem), graph(graph), options(options), start(std::clock()) {}

  Placement run() {
    for (unsigned device = 0; device != problem.devices.size(); ++device)
      consider(schedule(problem, graph, std::vector<unsigned>(problem.tasks.size(), device), graph.order));
    consider(fillInOrder());
    for (const Placement &placement :
         {placeByEarliestFinish(problem, graph), placeByEarliestStart(problem, graph, /*withFavourites=*/false),
          placeByEarliestStart(problem, graph, /*withFavourites=*/true)}) {
      consider(placement);
      if (placement.isFeasible())
        tryDevices(placement.devices);
    }
    if (best.isFeasible())
      improve();
    return best;
  }

private:
  bool isOutOfTime() const {
    if (static_cast<double>(numTried) * static_cast<double>(problem.tasks.size()) > mostScheduledTasks)
      return true;
    return options.timeBudget > 0 && static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC >= options.timeBudget;
  }

  /// Takes a placement that is done earlier or, done at the same time, has its tasks done earlier together.
  bool consider(const Placement &placement) {
    if (!placement.isFeasible())
      return false;
    double total = 0;
    for (const Span &span : placement.spans)
      total += span.finish;
    bool isBetter = !best.isFeasible() || placement.seconds < best.seconds * (1 - rounding) ||
                    (placement.seconds <= best.seconds && total < bestTotal * (1 - rounding));
    if (!isBetter)
      return false;
    if (options.progress && placement.seconds < best.seconds)
      options.progress(placement.seconds);
    best = placement;
    bestTotal = total;
    bestOrder = graph.order;
    std::stable_sort(bestOrder.begin(), bestOrder.end(),
                     [this](unsigned a, unsigned b) { return best.spans[a].start < best.spans[b].start; });
    return true;
  }

  /// In the order of the best placement, and in that of the longest ways.
  bool tryDevices(const std::vector<unsigned> &devices) {
    numTried += 2;
    return consider(schedule(problem, graph, devices, bestOrder)) || consider(schedule(problem, graph, devices));
  }

  /// Tasks in order, on the first device until its memory is full, then on the next.
  Placement fillInOrder() const {
    std::vector<unsigned> devices(problem.tasks.size());
    std::vector<double> left;
    left.reserve(problem.devices.size());
    for (const Device &device : problem.devices)
      left.push_back(device.memory);
    for (unsigned task = 0; task != devices.size(); ++task)
      if (problem.tasks[task].pinned)
        left[*problem.tasks[task].pinned] -= problem.tasks[task].bytes;
    unsigned current = 0;
    for (unsigned task : graph.order) {
      if (problem.tasks[task].pinned) {
        devices[task] = *problem.tasks[task].pinned;
        continue;
      }
      auto fits = [&](unsigned device) {
        return problem.tasks[task].bytes <= left[device] && !std::isinf(problem.secondsOn(task, device));
      };
      unsigned tried = 0;
      for (; tried != problem.devices.size() && !fits(current); ++tried)
        current = (current + 1) % static_cast<unsigned>(problem.devices.size());
      if (tried == problem.devices.size())
        return {};
      devices[task] = current;
      left[current] -= problem.tasks[task].bytes;
    }
    return schedule(problem, graph, devices);
  }

  /// What lies on the longest way is moved as long as that helps; then everything, late tasks first.
  void improve() {
    for (bool improved = true; improved;) {
      while (improveFirstOf(criticalTasks()))
        ;
      std::vector<unsigned> tasks(problem.tasks.size());
      std::iota(tasks.begin(), tasks.end(), 0u);
      std::stable_sort(tasks.begin(), tasks.end(),
                       [this](unsigned a, unsigned b) { return best.spans[a].finish > best.spans[b].finish; });
      improved = improveFirstOf(tasks);
    }
  }

  bool improveFirstOf(const std::vector<unsigned> &tasks) {
    return std::any_of(tasks.begin(), tasks.end(), [this](unsigned task) {
      return !isOutOfTime() && (moveAlone(task) || moveWithInputs(task) || swap(task));
    });
  }

  /// From the last task back: what each has waited for, the task before it on its device or the input that came last.
  std::vector<unsigned> criticalTasks() const {
    auto last = std::max_element(best.spans.begin(), best.spans.end(),
                                 [](const Span &a, const Span &b) { return a.finish < b.finish; });
    std::vector<unsigned> tasks = {static_cast<unsigned>(last - best.spans.begin())};
    for (;;) {
      unsigned task = tasks.back();
      std::optional<unsigned> before = waitedFor(task);
      if (!before)
        return tasks;
      tasks.push_back(*before);
    }
  }

  std::optional<unsigned> waitedFor(unsigned task) const {
    double start = best.spans[task].start, latest = 0;
    std::optional<unsigned> found;
    for (const TaskInput &input : graph.inputs[task]) {
      double arrival = best.spans[input.from].finish +
                       problem.transferSeconds(input.bytes, best.devices[input.from], best.devices[task]);
      if (!found || arrival > latest) {
        latest = arrival;
        found = input.from;
      }
    }
    if (found && latest >= start * (1 - rounding))
      return found;
    for (unsigned other = 0; other != problem.tasks.size(); ++other)
      if (best.devices[other] == best.devices[task] && best.spans[other].finish == start &&
          best.spans[other].start < start)
        return other;
    return found;
  }

  bool moveAlone(unsigned task) {
    for (unsigned device = 0; device != problem.devices.size(); ++device) {
      if (device == best.devices[task] || std::isinf(problem.secondsOn(task, device)))
        continue;
      std::vector<unsigned> devices = best.devices;
      devices[task] = device;
      if (tryDevices(devices))
        return true;
    }
    return false;
  }

  /// A task and those that it reads from, of its device, as far back as nobody else reads from them: a branch.
  bool moveWithInputs(unsigned task) {
    std::vector<unsigned> branch = {task};
    for (size_t i = 0; i != branch.size(); ++i)
      for (const TaskInput &input : graph.inputs[branch[i]])
        if (best.devices[input.from] == best.devices[task] && graph.readers[input.from].size() == 1 &&
            !problem.tasks[input.from].pinned)
          branch.push_back(input.from);
    if (branch.size() == 1)
      return false;
    for (unsigned device = 0; device != problem.devices.size(); ++device) {
      if (device == best.devices[task])
        continue;
      std::vector<unsigned> devices = best.devices;
      for (unsigned member : branch)
        devices[member] = device;
      if (tryDevices(devices))
        return true;
    }
    return false;
  }

  /// With a task of another device that runs at the same time.
  bool swap(unsigned task) {
    for (unsigned other = 0; other != problem.tasks.size() && !isOutOfTime(); ++other) {
      const Span &a = best.spans[task], &b = best.spans[other];
      if (best.devices[other] == best.devices[task] || a.start >= b.finish || b.start >= a.finish)
        continue;
      std::vector<unsigned> devices = best.devices;
      std::swap(devices[task], devices[other]);
      if (tryDevices(devices))
        return true;
    }
    return false;
  }

  const PlacementProblem &problem;
  const TaskGraph &graph;
  const PlaceOptions &options;
  std::clock_t start;
  size_t numTried = 0;
  Placement best;
  double bestTotal = 0;
  std::vector<unsigned> bestOrder; ///< By start.
};

bool hasDeviceForEach(const PlacementProblem &problem) {
  for (unsigned task = 0; task != problem.tasks.size(); ++task) {
    bool found = false;
    for (unsigned device = 0; device != problem.devices.size(); ++device)
      found |=
          !std::isinf(problem.secondsOn(task, device)) && problem.tasks[task].bytes <= problem.devices[device].memory;
    if (!found)
      return false;
  }
  return true;
}

} // namespace

PlaceResult place(const PlacementProblem &problem, const PlaceOptions &options) {
  PlaceResult result;
  std::optional<TaskGraph> graph = TaskGraph::make(problem);
  if (!graph) {
    result.failure = PlaceFailure::Circle;
    return result;
  }
  if (!hasDeviceForEach(problem)) {
    result.failure = PlaceFailure::NoDevice;
    return result;
  }
  result.lowerBound = lowerBound(problem, *graph);
  result.placement = Search(problem, *graph, options).run();
  if (!result.placement.isFeasible() && !problem.tasks.empty())
    result.failure = PlaceFailure::MemoryLimits;
  return result;
}

} // namespace cleave::placement
