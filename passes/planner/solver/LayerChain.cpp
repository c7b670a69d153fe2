// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Powers by repeated squaring, and the way back through them.

#include "passes/planner/solver/LayerChain.h"
#include "passes/planner/solver/MinSum.h"

#include <cassert>
#include <cmath>
#include <map>

namespace cleave::solver {

std::optional<LayerChain> LayerChain::run(const ChainProblem &problem, const EliminationOptions &options) {
  ChoiceProblem layer = problem.layer;
  unsigned numChoices = static_cast<unsigned>(layer.domainOf(problem.entry).size());
  assert(problem.count >= 1 && problem.entry != problem.exit && "expected a layer from an entry to an exit");
  assert(numChoices == layer.domainOf(problem.exit).size() && "expected equally many choices at entry and exit");
  layer.variables[problem.entry] = static_cast<unsigned>(layer.domains.size());
  layer.domains.emplace_back(numChoices);
  std::optional<Elimination> elimination = Elimination::run(layer, {problem.entry, problem.exit}, options);
  if (!elimination)
    return std::nullopt;
  LayerChain chain(std::move(*elimination), problem.count, numChoices);
  chain.setCount(problem.count);
  return chain;
}

void LayerChain::setSecondsPerByte(double secondsPerByte) {
  layer.setSecondsPerByte(secondsPerByte);
  squares.clear();
  computePower();
}

void LayerChain::setCount(uint64_t changed) {
  count = changed;
  computePower();
}

std::vector<double> LayerChain::product(const std::vector<double> &a, const std::vector<double> &b) const {
  std::vector<double> result(a.size(), forbidden);
  for (size_t row = 0; row != numChoices; ++row)
    for (size_t middle = 0; middle != numChoices; ++middle) {
      const double *entries = &b[middle * numChoices];
      if (!std::isinf(a[row * numChoices + middle]))
        lowerToSum(&result[row * numChoices], a[row * numChoices + middle], &entries, 1, numChoices);
    }
  return result;
}

void LayerChain::computePower() {
  partial.clear();
  for (size_t exponent = 0; count >> exponent != 0; ++exponent) {
    if (exponent == squares.size())
      squares.push_back(exponent == 0 ? layer.values() : product(squares.back(), squares.back()));
    if ((count >> exponent) % 2 == 1)
      partial.push_back(partial.empty() ? squares[exponent] : product(partial.back(), squares[exponent]));
  }
  if (!partial.empty())
    power = partial.back();
}

/// The choice between two factors of a product at which it attains its entry.
unsigned LayerChain::between(const std::vector<double> &a, const std::vector<double> &b, unsigned entry,
                             unsigned exit) const {
  unsigned best = 0;
  double least = forbidden;
  for (unsigned middle = 0; middle != numChoices; ++middle) {
    double sum =
        a[static_cast<size_t>(entry) * numChoices + middle] + b[static_cast<size_t>(middle) * numChoices + exit];
    if (sum < least) {
      least = sum;
      best = middle;
    }
  }
  return best;
}

/// Appends the exits of 2^exponent layers.
void LayerChain::splitSquare(size_t exponent, unsigned entry, unsigned exit, std::vector<unsigned> &exits) const {
  if (exponent == 0)
    return exits.push_back(exit);
  unsigned middle = between(squares[exponent - 1], squares[exponent - 1], entry, exit);
  splitSquare(exponent - 1, entry, middle, exits);
  splitSquare(exponent - 1, middle, exit, exits);
}

LayerChain::Choices LayerChain::choicesAt(unsigned entry, unsigned exit) const {
  Choices result;
  if (std::isinf(power[static_cast<size_t>(entry) * numChoices + exit]))
    return result;
  // The layers of each set bit of the count, from the highest, which come last, to the lowest.
  struct Run {
    size_t exponent;
    unsigned entry, exit;
  };
  std::vector<Run> runs;
  size_t index = partial.size();
  unsigned end = exit;
  for (size_t exponent = squares.size(); exponent-- != 0;) {
    if ((count >> exponent) % 2 == 0)
      continue;
    --index;
    unsigned begin = index == 0 ? entry : between(partial[index - 1], squares[exponent], entry, end);
    runs.push_back({exponent, begin, end});
    end = begin;
  }
  std::vector<unsigned> exits;
  for (size_t i = runs.size(); i-- != 0;)
    splitSquare(runs[i].exponent, runs[i].entry, runs[i].exit, exits);
  std::map<std::pair<unsigned, unsigned>, unsigned> known;
  unsigned begin = entry;
  for (unsigned next : exits) {
    auto [it, isNew] = known.try_emplace({begin, next}, static_cast<unsigned>(result.distinct.size()));
    if (isNew)
      result.distinct.push_back(layer.choicesAt({begin, next}));
    result.layers.push_back(it->second);
    begin = next;
  }
  return result;
}

} // namespace cleave::solver
