// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks from the last task to the first.

#include "passes/planner/placement/Rank.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace cleave::placement {
namespace {

double meanSeconds(const PlacementProblem &problem, unsigned task) {
  double sum = 0;
  unsigned count = 0;
  for (unsigned device = 0; device != problem.devices.size(); ++device)
    if (double seconds = problem.secondsOn(task, device); !std::isinf(seconds)) {
      sum += seconds;
      ++count;
    }
  return count == 0 ? 0 : sum / count;
}

std::vector<double> ranks(const TaskGraph &graph, const std::function<double(unsigned task)> &seconds,
                          const std::function<double(const TaskInput &input, unsigned task)> &transfer) {
  std::vector<double> below(graph.inputs.size()), result(graph.inputs.size());
  for (size_t i = graph.order.size(); i-- != 0;) {
    unsigned task = graph.order[i];
    result[task] = seconds(task) + below[task];
    for (const TaskInput &input : graph.inputs[task])
      below[input.from] = std::max(below[input.from], transfer(input, task) + result[task]);
  }
  return result;
}

} // namespace

double meanTransferSeconds(const PlacementProblem &problem, double bytes) {
  unsigned numDevices = static_cast<unsigned>(problem.devices.size());
  double sum = 0;
  for (unsigned from = 0; from != numDevices; ++from)
    for (unsigned to = 0; to != numDevices; ++to)
      sum += problem.transferSeconds(bytes, from, to);
  return numDevices < 2 ? 0 : sum / (numDevices * (numDevices - 1.0));
}

std::vector<double> meanRanks(const PlacementProblem &problem, const TaskGraph &graph) {
  // Transfer times are linear in bytes.
  double latency = meanTransferSeconds(problem, 0), perByte = meanTransferSeconds(problem, 1) - latency;
  return ranks(
      graph, [&](unsigned task) { return meanSeconds(problem, task); },
      [&](const TaskInput &input, unsigned) { return latency + perByte * input.bytes; });
}

std::vector<double> placedRanks(const PlacementProblem &problem, const TaskGraph &graph,
                                const std::vector<unsigned> &devices) {
  return ranks(
      graph, [&](unsigned task) { return problem.secondsOn(task, devices[task]); },
      [&](const TaskInput &input, unsigned task) {
        return problem.transferSeconds(input.bytes, devices[input.from], devices[task]);
      });
}

std::vector<unsigned> orderByRank(const TaskGraph &graph, const std::vector<double> &ranks) {
  std::vector<unsigned> order = graph.order;
  std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return ranks[a] > ranks[b]; });
  return order;
}

} // namespace cleave::placement
