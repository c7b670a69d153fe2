// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Greedy orders with a queue of candidates; those whose neighbourhood has changed since are put in anew.

#include "passes/planner/solver/EliminationOrder.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

namespace cleave::solver {
namespace {

enum class Measure { Fill, Weight };

/// Beyond so many neighbours a variable is not soon eliminated, and an upper bound of its fill will do.
constexpr size_t mostCounted = 64;

class GreedyOrder {
public:
  GreedyOrder(const VariableGraph &graph, Measure measure)
      : graph(graph), measure(measure), neighbours(graph.sizes.size()), version(graph.sizes.size()) {
    for (auto [first, second] : graph.edges) {
      neighbours[first].push_back(second);
      neighbours[second].push_back(first);
    }
    for (std::vector<unsigned> &list : neighbours) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  EliminationOrder run() {
    for (unsigned variable = 0; variable != graph.sizes.size(); ++variable)
      push(variable);
    while (!queue.empty()) {
      auto [fill, tie, variable, pushed] = queue.top();
      queue.pop();
      if (pushed == version[variable])
        eliminate(variable);
    }
    return std::move(order);
  }

private:
  using Candidate = std::tuple<double, double, unsigned, unsigned>;

  double weight(unsigned variable) const {
    double weight = graph.sizes[variable];
    for (unsigned neighbour : neighbours[variable])
      weight *= graph.sizes[neighbour];
    return weight;
  }

  double fill(unsigned variable) const {
    const std::vector<unsigned> &around = neighbours[variable];
    double pairs = static_cast<double>(around.size()) * (static_cast<double>(around.size()) - 1) / 2;
    if (around.size() < 2 || around.size() > mostCounted)
      return around.size() < 2 ? 0 : pairs;
    size_t present = 0;
    for (size_t i = 0; i != around.size(); ++i)
      for (size_t j = i + 1; j != around.size(); ++j)
        present += std::binary_search(neighbours[around[i]].begin(), neighbours[around[i]].end(), around[j]);
    return pairs - static_cast<double>(present);
  }

  void push(unsigned variable) {
    if (!graph.isEliminated[variable])
      return;
    double first = fill(variable), second = weight(variable);
    if (measure == Measure::Weight)
      std::swap(first, second);
    queue.emplace(first, second, variable, ++version[variable]);
  }

  void eliminate(unsigned variable) {
    std::vector<unsigned> around = std::move(neighbours[variable]);
    neighbours[variable].clear();
    version[variable] = 0;
    order.variables.push_back(variable);
    order.width = std::max(order.width, static_cast<unsigned>(around.size()));
    double entries = 1;
    for (unsigned neighbour : around)
      entries *= graph.sizes[neighbour];
    order.entries += entries;
    order.work += entries * graph.sizes[variable];
    std::vector<unsigned> changed = around;
    std::vector<std::pair<unsigned, unsigned>> added;
    for (unsigned neighbour : around)
      connect(neighbour, variable, around, added);
    for (auto [first, second] : added)
      addCommonNeighbours(first, second, changed);
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (unsigned neighbour : changed)
      push(neighbour);
  }

  /// Takes `removed` from a variable's neighbours and adds all of `around`; `added` are the edges that were not there.
  void connect(unsigned variable, unsigned removed, const std::vector<unsigned> &around,
               std::vector<std::pair<unsigned, unsigned>> &added) {
    std::vector<unsigned> &own = neighbours[variable];
    own.erase(std::lower_bound(own.begin(), own.end(), removed));
    size_t before = added.size();
    for (unsigned other : around)
      if (other != variable && !std::binary_search(own.begin(), own.end(), other))
        added.emplace_back(variable, other);
    for (size_t i = before; i != added.size(); ++i)
      own.insert(std::lower_bound(own.begin(), own.end(), added[i].second), added[i].second);
  }

  /// Adds the neighbours of both ends of a new edge: eliminating one of them now adds an edge less.
  void addCommonNeighbours(unsigned first, unsigned second, std::vector<unsigned> &to) const {
    const std::vector<unsigned> *fewer = &neighbours[first], *more = &neighbours[second];
    if (more->size() < fewer->size())
      std::swap(fewer, more);
    for (unsigned neighbour : *fewer)
      if (std::binary_search(more->begin(), more->end(), neighbour))
        to.push_back(neighbour);
  }

  const VariableGraph &graph;
  Measure measure;
  std::vector<std::vector<unsigned>> neighbours;
  /// Of the last time that a variable was pushed; 0 once it is eliminated.
  std::vector<unsigned> version;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  EliminationOrder order;
};

} // namespace

EliminationOrder findEliminationOrder(const VariableGraph &graph) {
  EliminationOrder byFill = GreedyOrder(graph, Measure::Fill).run();
  if (byFill.width <= 1)
    return byFill;
  EliminationOrder byWeight = GreedyOrder(graph, Measure::Weight).run();
  return byWeight.work < byFill.work ? byWeight : byFill;
}

} // namespace cleave::solver
