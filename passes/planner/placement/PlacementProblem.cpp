// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tasks in order, and what no placement can beat.

#include "passes/planner/placement/PlacementProblem.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

namespace cleave::placement {

double PlacementProblem::secondsOn(unsigned task, unsigned device) const {
  if (tasks[task].pinned && *tasks[task].pinned != device)
    return impossible;
  return tasks[task].seconds[devices[device].kind];
}

double PlacementProblem::transferSeconds(double bytes, unsigned from, unsigned to) const {
  if (from == to)
    return 0;
  const Link &link = links[from * devices.size() + to];
  return link.latency + bytes / link.bandwidth;
}

std::optional<TaskGraph> TaskGraph::make(const PlacementProblem &problem) {
  TaskGraph graph;
  size_t numTasks = problem.tasks.size();
  graph.inputs.resize(numTasks);
  graph.readers.resize(numTasks);
  std::map<std::pair<unsigned, unsigned>, unsigned> values;
  for (const TaskEdge &edge : problem.edges) {
    unsigned value = values.try_emplace({edge.from, edge.result}, graph.numValues).first->second;
    graph.numValues = static_cast<unsigned>(values.size());
    std::vector<TaskInput> &inputs = graph.inputs[edge.to];
    if (std::none_of(inputs.begin(), inputs.end(), [&](const TaskInput &input) { return input.value == value; }))
      inputs.push_back({value, edge.from, edge.bytes});
    std::vector<unsigned> &readers = graph.readers[edge.from];
    if (std::find(readers.begin(), readers.end(), edge.to) == readers.end())
      readers.push_back(edge.to);
  }
  std::vector<unsigned> waitsFor(numTasks);
  for (const std::vector<unsigned> &readers : graph.readers)
    for (unsigned reader : readers)
      ++waitsFor[reader];
  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
  for (unsigned task = 0; task != numTasks; ++task)
    if (waitsFor[task] == 0)
      ready.push(task);
  while (!ready.empty()) {
    unsigned task = ready.top();
    ready.pop();
    graph.order.push_back(task);
    for (unsigned reader : graph.readers[task])
      if (--waitsFor[reader] == 0)
        ready.push(reader);
  }
  if (graph.order.size() != numTasks)
    return std::nullopt;
  return graph;
}

double lowerBound(const PlacementProblem &problem, const TaskGraph &graph) {
  unsigned numDevices = static_cast<unsigned>(problem.devices.size());
  std::vector<double> finish(problem.tasks.size()), pinned(numDevices);
  double path = 0, work = 0;
  for (unsigned task : graph.order) {
    double least = impossible, ready = 0;
    for (unsigned device = 0; device != numDevices; ++device)
      least = std::min(least, problem.secondsOn(task, device));
    for (const TaskInput &input : graph.inputs[task])
      ready = std::max(ready, finish[input.from]);
    finish[task] = ready + least;
    path = std::max(path, finish[task]);
    work += least;
    if (problem.tasks[task].pinned)
      pinned[*problem.tasks[task].pinned] += least;
  }
  double busiest = numDevices == 0 ? 0 : *std::max_element(pinned.begin(), pinned.end());
  return std::max({path, work / std::max(numDevices, 1u), busiest});
}

} // namespace cleave::placement
