// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory limit as a price of bytes, and the search that closes the gap.

#include "passes/planner/solver/Solve.h"
#include "passes/planner/solver/Exhaustive.h"
#include "passes/planner/solver/Ilp.h"
#include "passes/planner/solver/LabelSearch.h"
#include "passes/planner/solver/Multiplier.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace cleave::solver {
namespace {

/// Where tables would have more entries in all, they are split, into as many as are still computed in a moment.
constexpr uint64_t mostEntries = 1u << 25, mostSplitEntries = 1u << 22;
/// Labels that a search keeps after each variable: few at first, since a better solution makes the next search smaller.
constexpr size_t labelLimits[] = {64, 1024, 16384, 131072};
/// Numbers that a search may look at, so that large problems end with a gap rather than late.
constexpr double mostWork = 5e8;

class MultiplierSearch {
public:
  MultiplierSearch(const ChoiceProblem &problem, const SolveOptions &options)
      : problem(problem), options(options), start(std::clock()),
        layout(makeBucketLayout(problem, {}, mostEntries, TooLarge::GiveUp)) {
    if (!layout)
      layout = makeBucketLayout(problem, {}, mostSplitEntries, TooLarge::Split);
  }

  ChoiceSolution run() {
    if (layout->reduction.isInfeasible)
      return impossible();
    BucketTree seconds(layout, {1, 0});
    best.lowerBound = seconds.least();
    if (std::isinf(best.lowerBound))
      return impossible();
    Choice fastest = consider(seconds);
    if (isProven())
      return proven();
    BucketTree bytes(layout, {0, 1});
    if (bytes.least() > problem.memoryLimit * (1 + rounding)) {
      best = {};
      best.leastBytes = bytes.least();
      return best;
    }
    Choice smallest = consider(bytes);
    BucketTree weighted(seconds);
    double secondsPerByte = fastest.bytes <= problem.memoryLimit ? 0 : limitBytes(weighted, fastest, smallest);
    if (isProven())
      return proven();
    closeGap({seconds, bytes, weighted, secondsPerByte});
    if (isProven())
      return proven();
    if (!best.isFeasible())
      best.leastBytes = bytes.least();
    return best;
  }

private:
  bool isOutOfTime() const {
    return options.timeBudget > 0 && static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC >= options.timeBudget;
  }

  bool isProven() const {
    return best.isFeasible() && best.lowerBound >= best.seconds * (1 - std::max(rounding, options.relativeGap));
  }

  ChoiceSolution proven() {
    if (best.lowerBound >= best.seconds * (1 - rounding))
      best.lowerBound = best.seconds;
    return best;
  }

  ChoiceSolution impossible() {
    best = {};
    best.leastBytes = forbidden;
    best.lowerBound = forbidden;
    return best;
  }

  /// Takes choices, as the reduction counts them, if they are better than the best; says what they cost.
  Choice consider(const std::vector<unsigned> &choices) {
    std::vector<unsigned> original = originalChoices(layout->reduction, choices);
    Choice cost = evaluate(problem, original);
    if (cost.bytes <= problem.memoryLimit && cost.seconds < best.seconds) {
      best.choices = std::move(original);
      best.seconds = cost.seconds;
      best.bytes = cost.bytes;
    }
    return cost;
  }

  Choice consider(const BucketTree &tree) {
    std::vector<unsigned> choices(problem.variables.size());
    tree.complete(choices);
    return consider(choices);
  }

  /// Leaves the tree at the multiplier with the best bound.
  double limitBytes(BucketTree &tree, const Choice &fastest, const Choice &smallest) {
    auto solveAt = [&](double price) {
      tree.setObjective({1, price});
      return Priced{consider(tree), tree.least()};
    };
    Multiplier multiplier =
        findMultiplier(solveAt, fastest, smallest, problem.memoryLimit, [this] { return isProven() || isOutOfTime(); });
    best.lowerBound = std::max(best.lowerBound, multiplier.lowerBound);
    tree.setObjective({1, multiplier.secondsPerByte});
    return multiplier.secondsPerByte;
  }

  /// The most numbers that are looked at for one label of each variable. Many labels share them unless the width is
  /// too large for tables.
  double workPerLabel() const {
    double work = 0;
    for (const Bucket &bucket : layout->buckets) {
      unsigned numTerms = 0;
      for (unsigned message = bucket.firstMessage; message != bucket.lastMessage; ++message)
        numTerms += layout->messages[message].lastTerm - layout->messages[message].firstTerm;
      work += layout->numChoices(bucket.variable) * (layout->isExact ? 1.0 : 3.0 * numTerms);
    }
    return work;
  }

  void closeGap(const SearchTrees &trees) {
    for (size_t mostLabels : labelLimits) {
      if (isProven() || isOutOfTime() || static_cast<double>(mostLabels) * workPerLabel() > mostWork)
        return;
      LabelSearchOptions search;
      search.memoryLimit = problem.memoryLimit;
      search.upperBound = best.seconds;
      search.mostLabels = mostLabels;
      search.isOutOfTime = [this] { return isOutOfTime(); };
      LabelSearchResult found = searchLabels(problem, trees, search);
      if (!found.choices.empty())
        consider(found.choices);
      best.lowerBound = std::max(best.lowerBound, found.lowerBound);
      if (!best.isFeasible() && std::isinf(found.lowerBound))
        return;
    }
  }

  const ChoiceProblem &problem;
  const SolveOptions &options;
  std::clock_t start;
  std::shared_ptr<const BucketLayout> layout;
  ChoiceSolution best;
};

} // namespace

std::string_view methodName(Method method) {
  switch (method) {
  case Method::Elimination:
    return "elimination";
  case Method::Ilp:
    return "ilp";
  case Method::Exhaustive:
    return "exhaustive";
  }
  return "";
}

std::optional<Method> findMethod(std::string_view name) {
  for (Method method : {Method::Elimination, Method::Ilp, Method::Exhaustive})
    if (name == methodName(method))
      return method;
  return std::nullopt;
}

double numCombinations(const ChoiceProblem &problem) {
  double product = 1;
  for (unsigned domain : problem.variables)
    product *= static_cast<double>(problem.domains[domain].size());
  return product;
}

ChoiceSolution solve(const ChoiceProblem &problem, const SolveOptions &options) {
  switch (options.method) {
  case Method::Ilp:
    return solveByIlp(problem, options);
  case Method::Exhaustive:
    return solveExhaustively(problem);
  case Method::Elimination:
    break;
  }
  return MultiplierSearch(problem, options).run();
}

} // namespace cleave::solver
