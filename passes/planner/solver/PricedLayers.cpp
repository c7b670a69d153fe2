// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chains as edges of the problem around them.

#include "passes/planner/solver/PricedLayers.h"

#include <algorithm>
#include <cmath>

namespace cleave::solver {
namespace {

bool makeChains(const LayeredProblem &problem, std::vector<LayerChain> &chains) {
  for (const ChainBetween &between : problem.chains) {
    std::optional<LayerChain> chain = LayerChain::run(between.chain);
    if (!chain)
      return false;
    chains.push_back(std::move(*chain));
  }
  return true;
}

void append(LayerChain::Choices &choices, LayerChain::Choices more) {
  unsigned offset = static_cast<unsigned>(choices.distinct.size());
  for (std::vector<unsigned> &layer : more.distinct)
    choices.distinct.push_back(std::move(layer));
  for (unsigned layer : more.layers)
    choices.layers.push_back(offset + layer);
}

} // namespace

PricedLayers::PricedLayers(const LayeredProblem &problem) : problem(problem) { usable = makeChains(problem, firsts); }

uint64_t PricedLayers::numLayers() const {
  uint64_t sum = 0;
  for (const ChainBetween &between : problem.chains)
    sum += between.chain.count;
  return sum;
}

PricedAnswer PricedLayers::solveAt(double secondsPerByte) {
  std::vector<Part> parts;
  for (size_t chain = 0; chain != firsts.size(); ++chain) {
    firsts[chain].setSecondsPerByte(secondsPerByte);
    firsts[chain].setCount(problem.chains[chain].chain.count);
    parts.push_back({chain, &firsts[chain], problem.chains[chain].first, problem.chains[chain].second});
  }
  return solveParts(problem.around, parts, secondsPerByte);
}

void PricedLayers::setPrices(double first, double second) {
  if (seconds.empty())
    usable = usable && makeChains(problem, seconds);
  if (!usable)
    return;
  for (LayerChain &chain : firsts)
    chain.setSecondsPerByte(first);
  for (LayerChain &chain : seconds)
    chain.setSecondsPerByte(second);
  meanPrice = (first + second) / 2;
}

PricedAnswer PricedLayers::solveMixed(uint64_t numFirst) {
  ChoiceProblem around = problem.around;
  std::vector<Part> parts;
  for (size_t chain = 0; chain != firsts.size(); ++chain) {
    const ChainBetween &between = problem.chains[chain];
    uint64_t before = std::min(numFirst, between.chain.count), after = between.chain.count - before;
    numFirst -= before;
    firsts[chain].setCount(before);
    seconds[chain].setCount(after);
    if (before == 0 || after == 0) {
      parts.push_back({chain, before == 0 ? &seconds[chain] : &firsts[chain], between.first, between.second});
      continue;
    }
    unsigned middle = static_cast<unsigned>(around.variables.size());
    around.variables.push_back(static_cast<unsigned>(around.domains.size()));
    around.domains.emplace_back(around.domainOf(between.first).size());
    parts.push_back({chain, &firsts[chain], between.first, middle});
    parts.push_back({chain, &seconds[chain], middle, between.second});
  }
  return solveParts(std::move(around), parts, meanPrice);
}

PricedAnswer PricedLayers::solveParts(ChoiceProblem around, const std::vector<Part> &parts, double secondsPerByte) {
  for (const Part &part : parts) {
    unsigned size = static_cast<unsigned>(around.domainOf(part.first).size());
    around.edges.push_back({part.first, part.second, static_cast<unsigned>(around.pairs.size())});
    around.pairs.push_back({size, size, part.layers->values()});
  }
  PricedAnswer answer;
  std::optional<Elimination> elimination = Elimination::run(around, {}, {.secondsPerByte = secondsPerByte});
  usable = usable && elimination;
  if (!usable)
    return answer;
  answer.least = elimination->values()[0];
  if (std::isinf(answer.least))
    return answer;
  answer.around = elimination->choicesAt({});
  answer.chains.resize(problem.chains.size());
  for (const Part &part : parts)
    append(answer.chains[part.chain], part.layers->choicesAt(answer.around[part.first], answer.around[part.second]));
  answer.around.resize(problem.around.variables.size());
  answer.cost = evaluate(problem, answer.around, answer.chains);
  return answer;
}

} // namespace cleave::solver
