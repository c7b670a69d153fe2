// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The price of a byte, and layers of two kinds that use the memory up.

#include "passes/planner/solver/LayeredProblem.h"
#include "passes/planner/solver/Multiplier.h"
#include "passes/planner/solver/PricedLayers.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

namespace cleave::solver {
namespace {

/// Written out, a problem may have so many variables; beyond, the gap stays.
constexpr uint64_t mostVariables = 2000;
/// The shares by which prices are moved off the multiplier to get the solutions of its two sides. For parts of a chain
/// the sides meet at slightly other prices than for the whole, and far off there are other solutions.
constexpr double offMultiplier[] = {1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3};

LayeredProblem onlyBytes(const LayeredProblem &problem) {
  LayeredProblem result = problem;
  result.around = onlyBytes(problem.around);
  for (ChainBetween &chain : result.chains)
    chain.chain.layer = onlyBytes(chain.chain.layer);
  return result;
}

class LayeredSearch {
public:
  LayeredSearch(const LayeredProblem &problem, const SolveOptions &options)
      : problem(problem), options(options), start(std::clock()), limit(problem.around.memoryLimit) {}

  LayeredSolution run() {
    PricedLayers layers(problem);
    if (!layers.isUsable())
      return solveWrittenOut();
    PricedAnswer fastest = layers.solveAt(0);
    if (!layers.isUsable())
      return solveWrittenOut();
    consider(fastest);
    if (fastest.around.empty()) {
      best.solution.leastBytes = best.solution.lowerBound = forbidden;
      return best;
    }
    best.solution.lowerBound = fastest.least;
    if (isWithin(rounding))
      return proven();
    if (!limitBytes(layers, fastest.cost) || isWithin(std::max(rounding, options.relativeGap)))
      return proven();
    return closeGap();
  }

  LayeredSolution solveWrittenOut() const {
    WrittenOut all = writeOut(problem);
    SolveOptions left = options;
    if (options.timeBudget > 0)
      left.timeBudget = std::max(secondsLeft(), 1e-3);
    LayeredSolution result;
    result.solution = solve(all.problem, left);
    if (!result.solution.isFeasible())
      return result;
    const std::vector<unsigned> &choices = result.solution.choices;
    for (const std::vector<std::vector<unsigned>> &chain : all.variables) {
      LayerChain::Choices &taken = result.chains.emplace_back();
      std::map<std::vector<unsigned>, unsigned> known;
      for (const std::vector<unsigned> &variables : chain) {
        std::vector<unsigned> layer;
        layer.reserve(variables.size());
        for (unsigned variable : variables)
          layer.push_back(choices[variable]);
        auto [it, isNew] = known.try_emplace(layer, static_cast<unsigned>(taken.distinct.size()));
        if (isNew)
          taken.distinct.push_back(std::move(layer));
        taken.layers.push_back(it->second);
      }
    }
    result.solution.choices.resize(problem.around.variables.size());
    return result;
  }

private:
  double secondsLeft() const { return options.timeBudget - static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }
  bool isOutOfTime() const { return options.timeBudget > 0 && secondsLeft() <= 0; }

  bool isWithin(double share) const {
    return best.solution.isFeasible() && best.solution.lowerBound >= best.solution.seconds * (1 - share);
  }

  LayeredSolution proven() {
    if (isWithin(rounding))
      best.solution.lowerBound = best.solution.seconds;
    return best;
  }

  void consider(const PricedAnswer &answer) {
    if (answer.around.empty() || answer.cost.bytes > limit || answer.cost.seconds >= best.solution.seconds)
      return;
    best.solution.choices = answer.around;
    best.solution.seconds = answer.cost.seconds;
    best.solution.bytes = answer.cost.bytes;
    best.chains = answer.chains;
  }

  /// Finds the price of bytes where the tables allow it; false where nothing is within the limit.
  bool limitBytes(PricedLayers &layers, const Choice &fastest) {
    LayeredProblem bytes = onlyBytes(problem);
    PricedAnswer smallest = PricedLayers(bytes).solveAt(0);
    if (smallest.around.empty())
      return true;
    smallest.cost = evaluate(problem, smallest.around, smallest.chains);
    if (smallest.cost.bytes > limit) {
      best = {};
      best.solution.leastBytes = smallest.cost.bytes;
      return false;
    }
    consider(smallest);
    auto solveAt = [&](double price) {
      PricedAnswer answer = layers.solveAt(price);
      consider(answer);
      return Priced{answer.cost, answer.least};
    };
    Multiplier multiplier = findMultiplier(solveAt, fastest, smallest.cost, limit, [this] { return isOutOfTime(); });
    best.solution.lowerBound = std::max(best.solution.lowerBound, multiplier.lowerBound);
    for (double share : offMultiplier) {
      if (multiplier.secondsPerByte <= 0 || isWithin(std::max(rounding, options.relativeGap)))
        break;
      mix(layers, multiplier.secondsPerByte * (1 - share), multiplier.secondsPerByte * (1 + share));
      mix(layers, multiplier.secondsPerByte * (1 + share), multiplier.secondsPerByte * (1 - share));
    }
    return true;
  }

  /// What is cheapest on one side of the multiplier takes too many bytes, and on the other side too few: as many layers
  /// as fit are from the first one.
  void mix(PricedLayers &layers, double first, double second) {
    layers.setPrices(first, second);
    uint64_t low = 0, high = layers.numLayers();
    while (layers.isUsable() && low <= high && !isOutOfTime()) {
      uint64_t middle = low + (high - low) / 2;
      PricedAnswer answer = layers.solveMixed(middle);
      consider(answer);
      // The smaller price takes more bytes.
      if ((answer.cost.bytes <= limit) == (first < second))
        low = middle + 1;
      else if (middle == 0)
        return;
      else
        high = middle - 1;
    }
  }

  LayeredSolution closeGap() {
    uint64_t numVariables = problem.around.variables.size();
    for (const ChainBetween &chain : problem.chains)
      numVariables += chain.chain.count * chain.chain.layer.variables.size();
    if (isOutOfTime() || numVariables > mostVariables)
      return best;
    LayeredSolution closed = solveWrittenOut();
    if (closed.solution.isFeasible() && closed.solution.seconds < best.solution.seconds) {
      closed.solution.lowerBound = std::max(closed.solution.lowerBound, best.solution.lowerBound);
      best = std::move(closed);
    } else
      best.solution.lowerBound = std::max(closed.solution.lowerBound, best.solution.lowerBound);
    return proven();
  }

  const LayeredProblem &problem;
  const SolveOptions &options;
  std::clock_t start;
  double limit;
  LayeredSolution best;
};

/// The cost of a layer without its entry's own.
Choice evaluateLayer(const ChainProblem &chain, const std::vector<unsigned> &choices) {
  ChoiceProblem layer = chain.layer;
  layer.variables[chain.entry] = static_cast<unsigned>(layer.domains.size());
  layer.domains.emplace_back(chain.layer.domainOf(chain.entry).size());
  return evaluate(layer, choices);
}

} // namespace

Choice evaluate(const LayeredProblem &problem, const std::vector<unsigned> &around,
                const std::vector<LayerChain::Choices> &chains) {
  Choice total = evaluate(problem.around, around);
  for (size_t i = 0; i != chains.size(); ++i) {
    std::vector<uint64_t> times(chains[i].distinct.size());
    for (unsigned layer : chains[i].layers)
      ++times[layer];
    for (size_t layer = 0; layer != times.size(); ++layer) {
      Choice cost = evaluateLayer(problem.chains[i].chain, chains[i].distinct[layer]);
      total.seconds += static_cast<double>(times[layer]) * cost.seconds;
      total.bytes += static_cast<double>(times[layer]) * cost.bytes;
    }
  }
  return total;
}

WrittenOut writeOut(const LayeredProblem &problem) {
  WrittenOut result{problem.around, {}};
  ChoiceProblem &all = result.problem;
  for (const ChainBetween &between : problem.chains) {
    const ChoiceProblem &layer = between.chain.layer;
    unsigned firstDomain = static_cast<unsigned>(all.domains.size());
    unsigned firstTable = static_cast<unsigned>(all.pairs.size());
    all.domains.insert(all.domains.end(), layer.domains.begin(), layer.domains.end());
    all.pairs.insert(all.pairs.end(), layer.pairs.begin(), layer.pairs.end());
    std::vector<std::vector<unsigned>> &copies = result.variables.emplace_back();
    unsigned entry = between.first;
    for (uint64_t copy = 0; copy != between.chain.count; ++copy) {
      std::vector<unsigned> &variables = copies.emplace_back(layer.variables.size());
      for (unsigned variable = 0; variable != variables.size(); ++variable) {
        if (variable == between.chain.entry)
          variables[variable] = entry;
        else if (variable == between.chain.exit && copy + 1 == between.chain.count)
          variables[variable] = between.second;
        else {
          variables[variable] = static_cast<unsigned>(all.variables.size());
          all.variables.push_back(firstDomain + layer.variables[variable]);
        }
      }
      entry = variables[between.chain.exit];
      for (const Edge &edge : layer.edges)
        all.edges.push_back({variables[edge.first], variables[edge.second], firstTable + edge.table});
    }
    // The last exit has its costs around and in the layer.
    std::vector<Choice> costs = all.domainOf(between.second);
    for (unsigned i = 0; i != costs.size(); ++i) {
      costs[i].seconds += layer.domainOf(between.chain.exit)[i].seconds;
      costs[i].bytes += layer.domainOf(between.chain.exit)[i].bytes;
    }
    all.variables[between.second] = static_cast<unsigned>(all.domains.size());
    all.domains.push_back(std::move(costs));
  }
  return result;
}

LayeredSolution solve(const LayeredProblem &problem, const SolveOptions &options) {
  LayeredSearch search(problem, options);
  return options.method == Method::Elimination ? search.run() : search.solveWrittenOut();
}

} // namespace cleave::solver
