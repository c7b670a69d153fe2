// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One layer of labels a variable. Labels that agree on the frontier, the variables that later ones depend on, form a
// group and share what the next choices add.

#include "passes/planner/solver/LabelSearch.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

namespace cleave::solver {
namespace {

struct Label {
  /// The least of any completion: seconds, bytes, and the weighted sum.
  double seconds = 0, bytes = 0, weighted = 0;
  uint32_t parent = 0; ///< An index into the history.
  uint32_t choice = 0;
};

struct Group {
  std::u32string frontier; ///< The choices of the frontier's variables.
  std::vector<Label> labels;
};

/// A variable, and the frontier once it is chosen.
struct Step {
  const Bucket *bucket = nullptr;
  std::vector<unsigned> frontier;
};

/// Variables in an order in which those that a bucket depends on come first: parents before children, and of the
/// children those with small subtrees first, so that few others are waited for meanwhile.
class StepOrder {
public:
  explicit StepOrder(const BucketLayout &layout)
      : layout(layout), position(layout.reduction.alive.size()), needs(layout.buckets.size()) {
    for (unsigned i = 0; i != layout.buckets.size(); ++i)
      position[layout.buckets[i].variable] = i;
    for (unsigned i = 0; i != layout.buckets.size(); ++i)
      needs[i] = needsOf(layout.buckets[i]);
  }

  std::vector<Step> run() {
    std::vector<unsigned> order = layout.isExact ? preorder() : reverseOrder();
    std::vector<Step> steps;
    std::vector<unsigned> lastNeed(layout.buckets.size());
    for (unsigned step = 0; step != order.size(); ++step)
      for (unsigned need : needs[order[step]])
        lastNeed[need] = step;
    std::vector<unsigned> frontier;
    for (unsigned step = 0; step != order.size(); ++step) {
      frontier.push_back(order[step]);
      std::erase_if(frontier, [&](unsigned bucket) { return lastNeed[bucket] <= step; });
      Step &next = steps.emplace_back(Step{&layout.buckets[order[step]], {}});
      for (unsigned bucket : frontier)
        next.frontier.push_back(layout.buckets[bucket].variable);
    }
    return steps;
  }

private:
  /// The buckets whose variables a bucket's costs depend on, ascending.
  std::vector<unsigned> needsOf(const Bucket &bucket) const {
    std::vector<unsigned> result;
    for (unsigned message = bucket.firstMessage; message != bucket.lastMessage; ++message)
      for (unsigned variable : layout.messages[message].scope)
        result.push_back(position[variable]);
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  std::vector<unsigned> reverseOrder() const {
    std::vector<unsigned> order;
    for (unsigned i = static_cast<unsigned>(needs.size()); i-- != 0;)
      order.push_back(i);
    return order;
  }

  std::vector<unsigned> preorder() const {
    std::vector<unsigned> size(needs.size(), 1), roots, stack, order;
    std::vector<std::vector<unsigned>> children(needs.size());
    for (unsigned i = 0; i != needs.size(); ++i) {
      if (needs[i].empty())
        roots.push_back(i);
      else {
        children[needs[i].front()].push_back(i);
        size[needs[i].front()] += size[i];
      }
    }
    auto push = [&](std::vector<unsigned> list) {
      std::stable_sort(list.begin(), list.end(), [&](unsigned a, unsigned b) { return size[a] > size[b]; });
      stack.insert(stack.end(), list.begin(), list.end());
    };
    push(roots);
    while (!stack.empty()) {
      order.push_back(stack.back());
      stack.pop_back();
      push(children[order.back()]);
    }
    return order;
  }

  const BucketLayout &layout;
  std::vector<unsigned> position;
  std::vector<std::vector<unsigned>> needs; // by bucket
};

class LabelSearch {
public:
  LabelSearch(const ChoiceProblem &problem, const SearchTrees &trees, const LabelSearchOptions &options)
      : problem(problem), trees(trees), options(options), layout(trees.seconds.getLayout()),
        steps(StepOrder(layout).run()), choices(layout.reduction.alive.size()), leftOut(options.upperBound) {}

  LabelSearchResult run() {
    Label empty{trees.seconds.least(), isLimited() ? trees.bytes.least() : 0, trees.weighted.least(), ~0u, 0};
    std::vector<Group> layer(1);
    if (isWorthwhile(empty))
      layer[0].labels.push_back(empty);
    for (size_t step = 0; step != steps.size(); ++step) {
      if (options.isOutOfTime())
        return {{}, boundOf(layer)};
      layer = extend(layer, step);
      for (Group &group : layer)
        dropDominated(group.labels);
      dropWorst(layer);
      remember(layer);
    }
    return finish(layer);
  }

private:
  bool isLimited() const { return !std::isinf(options.memoryLimit); }

  double bound(const Label &label) const {
    return isLimited() ? std::max(label.seconds, label.weighted - trees.secondsPerByte * options.memoryLimit)
                       : label.seconds;
  }

  bool isWorthwhile(const Label &label) const {
    return bound(label) < options.upperBound && label.bytes <= options.memoryLimit * (1 + rounding);
  }

  double boundOf(const std::vector<Group> &layer) const {
    double least = leftOut;
    for (const Group &group : layer)
      for (const Label &label : group.labels)
        least = std::min(least, bound(label));
    return least;
  }

  std::vector<Group> extend(const std::vector<Group> &layer, size_t step) {
    const Bucket &bucket = *steps[step].bucket;
    unsigned numChoices = layout.numChoices(bucket.variable);
    std::vector<double> seconds(numChoices), bytes(numChoices), weighted(numChoices);
    std::vector<Group> next;
    std::unordered_map<std::u32string, size_t> groupAt;
    for (const Group &group : layer) {
      for (size_t i = 0; i != group.frontier.size(); ++i)
        choices[steps[step - 1].frontier[i]] = group.frontier[i];
      trees.seconds.increasesAt(bucket, choices, seconds.data());
      trees.weighted.increasesAt(bucket, choices, weighted.data());
      if (isLimited())
        trees.bytes.increasesAt(bucket, choices, bytes.data());
      for (unsigned choice = 0; choice != numChoices; ++choice) {
        if (std::isinf(seconds[choice]))
          continue;
        Group *target = nullptr;
        for (const Label &label : group.labels) {
          Label longer{label.seconds + seconds[choice], label.bytes + bytes[choice], label.weighted + weighted[choice],
                       label.parent, choice};
          if (!isWorthwhile(longer))
            continue;
          if (!target)
            target = &groupOf(next, groupAt, step, choice);
          target->labels.push_back(longer);
        }
      }
    }
    return next;
  }

  Group &groupOf(std::vector<Group> &layer, std::unordered_map<std::u32string, size_t> &groupAt, size_t step,
                 unsigned choice) {
    choices[steps[step].bucket->variable] = choice;
    std::u32string frontier;
    for (unsigned variable : steps[step].frontier)
      frontier.push_back(choices[variable]);
    auto [it, isNew] = groupAt.try_emplace(frontier, layer.size());
    if (isNew)
      layer.push_back({std::move(frontier), {}});
    return layer[it->second];
  }

  static void dropDominated(std::vector<Label> &labels) {
    std::stable_sort(labels.begin(), labels.end(), [](const Label &a, const Label &b) {
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
    });
    size_t left = 0;
    for (const Label &label : labels)
      if (left == 0 || label.bytes < labels[left - 1].bytes)
        labels[left++] = label;
    labels.resize(left);
  }

  /// Keeps the labels with the least bounds, and the least bound of those left out.
  void dropWorst(std::vector<Group> &layer) {
    std::vector<double> bounds;
    for (const Group &group : layer)
      for (const Label &label : group.labels)
        bounds.push_back(bound(label));
    if (bounds.size() <= options.mostLabels)
      return;
    std::nth_element(bounds.begin(), bounds.begin() + static_cast<ptrdiff_t>(options.mostLabels), bounds.end());
    double worst = bounds[options.mostLabels];
    leftOut = std::min(leftOut, worst);
    // All below the worst stay, and of its equals the first ones.
    size_t equals =
        options.mostLabels -
        static_cast<size_t>(std::count_if(bounds.begin(), bounds.begin() + static_cast<ptrdiff_t>(options.mostLabels),
                                          [&](double other) { return other < worst; }));
    for (Group &group : layer)
      std::erase_if(group.labels, [&](const Label &label) {
        double own = bound(label);
        if (own != worst)
          return own > worst;
        if (equals == 0)
          return true;
        --equals;
        return false;
      });
  }

  void remember(std::vector<Group> &layer) {
    for (Group &group : layer)
      for (Label &label : group.labels) {
        history.emplace_back(label.parent, label.choice);
        label.parent = static_cast<uint32_t>(history.size() - 1);
      }
  }

  LabelSearchResult finish(const std::vector<Group> &layer) {
    for (const Group &group : layer)
      for (const Label &label : group.labels) {
        uint32_t at = label.parent;
        for (size_t step = steps.size(); step-- != 0; at = history[at].first)
          choices[steps[step].bucket->variable] = history[at].second;
        Choice cost = evaluate(problem, originalChoices(layout.reduction, choices));
        if (cost.bytes <= problem.memoryLimit)
          return {choices, std::min(leftOut, cost.seconds)};
      }
    return {{}, leftOut};
  }

  const ChoiceProblem &problem;
  const SearchTrees &trees;
  const LabelSearchOptions &options;
  const BucketLayout &layout;
  std::vector<Step> steps;
  /// Of the variables of the frontier; others hold what was there last.
  std::vector<unsigned> choices;
  /// The least bound of labels left out.
  double leftOut;
  /// Of each label: the one that it extends, and its choice.
  std::vector<std::pair<uint32_t, uint32_t>> history;
};

} // namespace

LabelSearchResult searchLabels(const ChoiceProblem &problem, const SearchTrees &trees,
                               const LabelSearchOptions &options) {
  return LabelSearch(problem, trees, options).run();
}

} // namespace cleave::solver
