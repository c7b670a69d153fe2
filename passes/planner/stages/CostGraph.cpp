// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders cost graphs, and costs stages of them.

#include "passes/planner/stages/CostGraph.h"

#include <algorithm>
#include <queue>

namespace cleave::stages {

bool sortTopologically(CostGraph &graph) {
  size_t count = graph.ops.size();
  std::vector<std::vector<unsigned>> readers(count);
  std::vector<unsigned> missing(count), position(count);
  for (unsigned i = 0; i < count; ++i) {
    missing[i] = graph.ops[i].inputs.size();
    for (unsigned input : graph.ops[i].inputs)
      readers[input].push_back(i);
  }
  // Of those that are ready, the first in the given order.
  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
  for (unsigned i = 0; i < count; ++i)
    if (missing[i] == 0)
      ready.push(i);
  std::vector<unsigned> order;
  while (!ready.empty()) {
    unsigned op = ready.top();
    ready.pop();
    position[op] = order.size();
    order.push_back(op);
    for (unsigned reader : readers[op])
      if (--missing[reader] == 0)
        ready.push(reader);
  }
  if (order.size() != count)
    return false;
  CostGraph sorted;
  for (unsigned op : order) {
    sorted.ops.push_back(std::move(graph.ops[op]));
    for (unsigned &input : sorted.ops.back().inputs)
      input = position[input];
  }
  graph = std::move(sorted);
  return true;
}

template <typename ValueOf> static std::vector<double> sumsOf(const CostGraph &graph, ValueOf valueOf) {
  std::vector<double> sums = {0};
  for (const CostOp &op : graph.ops)
    sums.push_back(sums.back() + valueOf(op));
  return sums;
}

ReplicatedStages::ReplicatedStages(const CostGraph &graph, ReplicaLinks &links, Mode mode)
    : graph(graph), links(links), mode(mode), forward(sumsOf(graph, [](const CostOp &op) { return op.forward; })),
      backward(sumsOf(graph, [](const CostOp &op) { return op.backward; })),
      parameters(sumsOf(graph, [](const CostOp &op) { return op.parameters; })),
      activations(sumsOf(graph, [](const CostOp &op) { return op.activation; })) {
  for (unsigned i = 0; i < graph.ops.size(); ++i) {
    lastUse.push_back(i);
    for (unsigned input : graph.ops[i].inputs)
      lastUse[input] = std::max(lastUse[input], i);
  }
}

/// A range grows by one operator after the other: its inputs enter, its result leaves until its last reader is inside.
const ReplicatedStages::Row &ReplicatedStages::rowOf(unsigned first) {
  auto [found, isNew] = rows.try_emplace(first);
  Row &row = found->second;
  if (!isNew)
    return row;
  double entering = 0, leaving = 0;
  std::vector<bool> hasEntered(first, false);
  row.entering.push_back(0);
  row.leaving.push_back(0);
  for (unsigned op = first; op < graph.ops.size(); ++op) {
    std::vector<unsigned> inputs = graph.ops[op].inputs;
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (unsigned input : inputs) {
      if (input < first && !hasEntered[input]) {
        hasEntered[input] = true;
        entering += graph.ops[input].activation;
      } else if (input >= first && lastUse[input] == op) {
        leaving -= graph.ops[input].activation;
      }
    }
    if (lastUse[op] > op)
      leaving += graph.ops[op].activation;
    row.entering.push_back(entering);
    row.leaving.push_back(std::max(leaving, 0.0));
  }
  return row;
}

StageOption ReplicatedStages::makeOption(unsigned first, unsigned last, unsigned devices) {
  StageOption option;
  double count = devices, weights = parameterBytes(first, last);
  double reduction = devices > 1 ? links.allReduceSeconds(weights, devices) : 0;
  option.fixedBytes = 2 * weights;
  if (mode == Mode::Step) {
    option.forward = sumOf(forward, first, last) / count;
    option.backward = sumOf(backward, first, last) / count;
    option.perStep = reduction;
    option.microbatchBytes = sumOf(activations, first, last) / count;
    return option;
  }
  double sent = 2 * std::max(entering(first, last), leaving(first, last));
  option.forward =
      std::max((seconds(first, last) + reduction) / count, sent > 0 ? sent / (links.bandwidth() * count) : 0);
  // Every batch in flight keeps the weights that it began with.
  option.microbatchBytes = sumOf(activations, first, last) + weights;
  return option;
}

const std::vector<StageOption> &ReplicatedStages::options(unsigned first, unsigned last, unsigned, unsigned devices) {
  std::vector<StageOption> &found = known[classOf(first, last) << 32 | devices];
  if (found.empty())
    found.push_back(makeOption(first, last, devices));
  return found;
}

/// Measured operators are all different.
uint64_t ReplicatedStages::classOf(unsigned first, unsigned last) {
  return uint64_t(first) * (graph.ops.size() + 1) + last;
}

double ReplicatedStages::transferSeconds(unsigned at, unsigned /*kind*/, unsigned /*devices*/, Hop /*hop*/) {
  unsigned end = graph.ops.size();
  if (mode == Mode::Steady || at == 0 || at >= end || entering(at, end) == 0)
    return 0;
  return links.latency() + entering(at, end) / links.bandwidth();
}

} // namespace cleave::stages
