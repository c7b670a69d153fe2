// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds graphs, and enumerates devices and orders together.

#include "PlacementBuilder.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace cleave::placement {
namespace {

/// Appends tasks one by one, each after those that it reads from, at the end of its device.
class Enumeration {
public:
  explicit Enumeration(const PlacementProblem &problem)
      : problem(problem), free(problem.devices.size()), bytes(problem.devices.size()), finish(problem.tasks.size(), -1),
        device(problem.tasks.size()) {}

  double run() {
    enumerate(0, 0);
    return best;
  }

private:
  void enumerate(size_t numPlaced, double latest) {
    if (latest >= best)
      return;
    if (numPlaced == problem.tasks.size()) {
      best = latest;
      return;
    }
    for (unsigned task = 0; task != problem.tasks.size(); ++task)
      if (finish[task] < 0 && isReady(task))
        for (unsigned to = 0; to != problem.devices.size(); ++to)
          append(task, to, numPlaced, latest);
  }

  void append(unsigned task, unsigned to, size_t numPlaced, double latest) {
    double seconds = problem.secondsOn(task, to), before = free[to];
    if (std::isinf(seconds) || bytes[to] + problem.tasks[task].bytes > problem.devices[to].memory)
      return;
    double start = before;
    for (const TaskEdge &edge : problem.edges)
      if (edge.to == task)
        start = std::max(start, finish[edge.from] + problem.transferSeconds(edge.bytes, device[edge.from], to));
    free[to] = finish[task] = start + seconds;
    device[task] = to;
    bytes[to] += problem.tasks[task].bytes;
    enumerate(numPlaced + 1, std::max(latest, finish[task]));
    bytes[to] -= problem.tasks[task].bytes;
    free[to] = before;
    finish[task] = -1;
  }

  bool isReady(unsigned task) const {
    return std::all_of(problem.edges.begin(), problem.edges.end(),
                       [&](const TaskEdge &edge) { return edge.to != task || finish[edge.from] >= 0; });
  }

  const PlacementProblem &problem;
  std::vector<double> free, bytes, finish;
  std::vector<unsigned> device;
  double best = impossible;
};

} // namespace

PlacementProblem topcuogluExample() {
  PlacementProblem problem;
  for (const std::vector<double> &seconds : std::vector<std::vector<double>>{{14, 16, 9},
                                                                             {13, 19, 18},
                                                                             {11, 13, 19},
                                                                             {13, 8, 17},
                                                                             {12, 13, 10},
                                                                             {13, 16, 9},
                                                                             {7, 15, 11},
                                                                             {5, 11, 14},
                                                                             {18, 12, 20},
                                                                             {21, 7, 16}})
    problem.tasks.push_back({seconds, 0});
  problem.edges = {{0, 1, 18, 0}, {0, 2, 12, 1}, {0, 3, 9, 2},  {0, 4, 11, 3}, {0, 5, 14, 4},
                   {1, 7, 19, 0}, {1, 8, 16, 1}, {2, 6, 23, 0}, {3, 7, 27, 0}, {3, 8, 23, 1},
                   {4, 8, 13, 0}, {5, 7, 15, 0}, {6, 9, 17, 0}, {7, 9, 11, 0}, {8, 9, 13, 0}};
  problem.devices = {{0}, {1}, {2}};
  problem.links.assign(9, {0, 1});
  problem.ports = Ports::Unlimited;
  return problem;
}

PlacementProblem generatePlacement(unsigned seed, unsigned numTasks, unsigned numDevices) {
  std::mt19937 random(seed);
  auto below = [&](unsigned end) { return static_cast<unsigned>(random() % end); };
  PlacementProblem problem;
  for (unsigned task = 0; task != numTasks; ++task) {
    double seconds = 1 + below(20);
    problem.tasks.push_back({{seconds, std::floor(seconds * (1 + below(4)) / 2) + 1}, 1.0 + below(10)});
  }
  for (unsigned to = 1; to != numTasks; ++to)
    for (unsigned from = to > 6 ? to - 6 : 0; from != to; ++from)
      if (below(100) < 35)
        problem.edges.push_back({from, to, 4.0 * (from % 5 + 1), 0});
  for (unsigned device = 0; device != numDevices; ++device)
    problem.devices.push_back({seed % 2 == 0 ? 0 : device % 2});
  problem.links.assign(numDevices * numDevices, {0.5, 4});
  problem.ports = Ports::Unlimited;
  return problem;
}

double bestByTryingAll(const PlacementProblem &problem) { return Enumeration(problem).run(); }

bool isValid(const PlacementProblem &problem, const Placement &placement) {
  std::vector<double> bytes(problem.devices.size());
  double latest = 0;
  for (unsigned task = 0; task != problem.tasks.size(); ++task) {
    unsigned device = placement.devices[task];
    const Span &span = placement.spans[task];
    bytes[device] += problem.tasks[task].bytes;
    latest = std::max(latest, span.finish);
    if (std::abs(span.finish - span.start - problem.secondsOn(task, device)) > 1e-9)
      return false;
    for (unsigned other = 0; other != task; ++other)
      if (placement.devices[other] == device && span.start < placement.spans[other].finish - 1e-9 &&
          placement.spans[other].start < span.finish - 1e-9)
        return false;
  }
  for (const TaskEdge &edge : problem.edges) {
    double arrival = placement.spans[edge.from].finish +
                     problem.transferSeconds(edge.bytes, placement.devices[edge.from], placement.devices[edge.to]);
    if (placement.spans[edge.to].start < arrival - 1e-9)
      return false;
  }
  for (unsigned device = 0; device != bytes.size(); ++device)
    if (bytes[device] > problem.devices[device].memory)
      return false;
  return latest == placement.seconds;
}

} // namespace cleave::placement
