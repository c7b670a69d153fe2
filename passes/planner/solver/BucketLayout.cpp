// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which table is computed from which. Messages that are computed from the same numbers in the same way, as those of
// equal layers are, share theirs.

#include "passes/planner/solver/BucketTree.h"
#include "passes/planner/solver/EliminationOrder.h"

#include <algorithm>
#include <map>

namespace cleave::solver {
namespace {

/// A table over some variables, in the order of elimination.
struct Factor {
  size_t offset = 0;
  std::vector<unsigned> scope;
};

/// A group of a bucket's factors that one message is computed from; `scope` is without the bucket's variable.
struct FactorGroup {
  std::vector<unsigned> factors;
  std::vector<unsigned> scope;
};

class LayoutBuilder {
public:
  LayoutBuilder(BucketLayout &layout, uint64_t mostEntries, TooLarge tooLarge)
      : layout(layout), mostEntries(mostEntries), tooLarge(tooLarge), position(layout.reduction.alive.size()),
        waiting(layout.reduction.alive.size()) {}

  /// Says whether the tables have no more entries than they may.
  bool run() {
    if (!findOrder())
      return false;
    placeOwnCosts();
    layout.firstPair = layout.entries;
    placePairs();
    layout.firstMessage = layout.entries;
    for (Bucket &bucket : layout.buckets)
      layOut(bucket);
    placeRests();
    return true;
  }

private:
  bool findOrder() {
    const Reduction &reduction = layout.reduction;
    VariableGraph graph;
    graph.isEliminated = reduction.isFree;
    for (unsigned variable : layout.kept)
      graph.isEliminated[variable] = false;
    for (unsigned variable = 0; variable != position.size(); ++variable)
      graph.sizes.push_back(layout.numChoices(variable));
    for (const Edge &edge : reduction.edges)
      graph.edges.emplace_back(edge.first, edge.second);
    EliminationOrder order = findEliminationOrder(graph);
    if (order.entries > static_cast<double>(mostEntries) && tooLarge == TooLarge::GiveUp)
      return false;
    layout.width = order.width;
    // A message may have its share, so that all of them together have no more than they may.
    mostOfMessage = order.entries > static_cast<double>(mostEntries)
                        ? static_cast<double>(mostEntries) / static_cast<double>(2 * order.variables.size())
                        : order.entries;
    unsigned next = 0;
    for (unsigned variable : order.variables) {
      layout.buckets.push_back({variable, 0, 0});
      position[variable] = next++;
    }
    for (unsigned variable : layout.kept)
      position[variable] = next++;
    return true;
  }

  size_t allocate(size_t entries) {
    size_t offset = layout.entries;
    layout.entries += entries;
    return offset;
  }

  bool isKept(unsigned variable) const { return position[variable] >= layout.buckets.size(); }

  void add(Factor factor) {
    factors.push_back(std::move(factor));
    unsigned index = static_cast<unsigned>(factors.size()) - 1;
    const std::vector<unsigned> &scope = factors.back().scope;
    if (scope.empty())
      layout.roots.push_back(factors.back().offset);
    else if (isKept(scope.front()))
      restFactors.push_back(index);
    else
      waiting[scope.front()].push_back(index);
  }

  void placeOwnCosts() {
    std::map<unsigned, size_t> offsets;
    for (unsigned variable = 0; variable != position.size(); ++variable) {
      if (!layout.reduction.isFree[variable])
        continue;
      unsigned like = layout.reduction.sameCosts[variable];
      auto [it, isNew] = offsets.try_emplace(like, layout.entries);
      if (isNew)
        layout.ownCosts.push_back({like, false, allocate(layout.numChoices(variable))});
      add({it->second, {variable}});
    }
  }

  void placePairs() {
    std::map<std::pair<unsigned, bool>, size_t> offsets;
    for (const Edge &edge : layout.reduction.edges) {
      bool isTransposed = position[edge.second] < position[edge.first];
      auto [it, isNew] = offsets.try_emplace({edge.table, isTransposed}, layout.entries);
      if (isNew)
        layout.pairCosts.push_back(
            {edge.table, isTransposed, allocate(layout.reduction.pairs[edge.table].seconds.size())});
      if (isTransposed)
        add({it->second, {edge.second, edge.first}});
      else
        add({it->second, {edge.first, edge.second}});
    }
  }

  std::vector<unsigned> united(const std::vector<unsigned> &scope, const Factor &factor) const {
    std::vector<unsigned> all;
    std::set_union(scope.begin(), scope.end(), factor.scope.begin() + 1, factor.scope.end(), std::back_inserter(all),
                   [this](unsigned a, unsigned b) { return position[a] < position[b]; });
    return all;
  }

  double entriesOf(const std::vector<unsigned> &scope) const {
    double entries = 1;
    for (unsigned variable : scope)
      entries *= layout.numChoices(variable);
    return entries;
  }

  /// The largest factors first, each into the first group that it fits into.
  std::vector<FactorGroup> groups(unsigned variable) const {
    std::vector<unsigned> sorted = waiting[variable];
    std::stable_sort(sorted.begin(), sorted.end(),
                     [this](unsigned a, unsigned b) { return factors[a].scope.size() > factors[b].scope.size(); });
    std::vector<FactorGroup> result;
    for (unsigned factor : sorted) {
      auto fits = [&](const FactorGroup &group) {
        return entriesOf(united(group.scope, factors[factor])) <= mostOfMessage;
      };
      auto group = std::find_if(result.begin(), result.end(), fits);
      if (group == result.end())
        group = result.insert(group, FactorGroup());
      group->scope = united(group->scope, factors[factor]);
      group->factors.push_back(factor);
    }
    return result;
  }

  void layOut(Bucket &bucket) {
    std::vector<FactorGroup> all = groups(bucket.variable);
    layout.isExact &= all.size() == 1;
    bucket.firstMessage = static_cast<unsigned>(layout.messages.size());
    for (FactorGroup &group : all)
      layOut(bucket.variable, std::move(group));
    bucket.lastMessage = static_cast<unsigned>(layout.messages.size());
  }

  void layOut(unsigned variable, FactorGroup group) {
    BucketMessage message;
    message.scope = std::move(group.scope);
    message.entries = static_cast<size_t>(entriesOf(message.scope));
    message.firstTerm = static_cast<unsigned>(layout.terms.size());
    // What makes messages equal: the sizes, and each term's numbers and strides.
    std::vector<size_t> key = {layout.numChoices(variable)};
    for (unsigned other : message.scope)
      key.push_back(layout.numChoices(other));
    for (unsigned factor : group.factors)
      addTerm(factors[factor], message.scope, key);
    message.lastTerm = static_cast<unsigned>(layout.terms.size());
    auto [it, isNew] = known.try_emplace(std::move(key), layout.entries);
    message.isShared = !isNew;
    message.offset = isNew ? allocate(message.entries) : it->second;
    add({message.offset, message.scope});
    layout.messages.push_back(std::move(message));
  }

  void addTerm(const Factor &factor, const std::vector<unsigned> &scope, std::vector<size_t> &key) {
    layout.terms.push_back({factor.offset, static_cast<unsigned>(layout.strides.size())});
    std::vector<size_t> strides(scope.size() + 1);
    size_t stride = 1;
    for (size_t i = factor.scope.size() - 1; i != 0; --i) {
      auto at = std::find(scope.begin(), scope.end(), factor.scope[i]);
      strides[static_cast<size_t>(at - scope.begin()) + 1] = stride;
      stride *= layout.numChoices(factor.scope[i]);
    }
    strides[0] = stride;
    key.push_back(factor.offset);
    key.insert(key.end(), strides.begin(), strides.end());
    layout.strides.insert(layout.strides.end(), strides.begin(), strides.end());
  }

  void placeRests() {
    for (unsigned index : restFactors) {
      const Factor &factor = factors[index];
      BucketLayout::Rest rest{factor.offset, std::vector<size_t>(layout.kept.size())};
      size_t stride = 1;
      for (size_t i = factor.scope.size(); i-- != 0;) {
        rest.strides[position[factor.scope[i]] - layout.buckets.size()] = stride;
        stride *= layout.numChoices(factor.scope[i]);
      }
      layout.rests.push_back(std::move(rest));
    }
  }

  BucketLayout &layout;
  uint64_t mostEntries;
  TooLarge tooLarge;
  double mostOfMessage = 0;
  /// By variable: when it is eliminated; kept ones come last, in their order.
  std::vector<unsigned> position;
  std::vector<Factor> factors;
  /// By variable: the factors that meet in it.
  std::vector<std::vector<unsigned>> waiting;
  std::vector<unsigned> restFactors;
  std::map<std::vector<size_t>, size_t> known;
};

} // namespace

std::shared_ptr<const BucketLayout> makeBucketLayout(const ChoiceProblem &problem, const std::vector<unsigned> &kept,
                                                     uint64_t mostEntries, TooLarge tooLarge, Drop drop) {
  auto layout = std::make_shared<BucketLayout>();
  layout->reduction = reduce(problem, kept, drop);
  layout->kept = kept;
  if (layout->reduction.isInfeasible)
    return layout;
  if (!LayoutBuilder(*layout, mostEntries, tooLarge).run())
    return nullptr;
  return layout;
}

} // namespace cleave::solver
