// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elimination as its users see it: choices counted as in the problem.

#include "passes/planner/solver/Elimination.h"
#include "passes/planner/solver/SharedLayouts.h"

#include <cmath>

namespace cleave::solver {

struct Elimination::State {
  BucketTree tree;
  std::vector<double> values;
};

Elimination::Elimination(std::unique_ptr<State> state) : state(std::move(state)) {}
Elimination::Elimination(Elimination &&) noexcept = default;
Elimination &Elimination::operator=(Elimination &&) noexcept = default;
Elimination::~Elimination() = default;

std::optional<Elimination> Elimination::run(const ChoiceProblem &problem, const std::vector<unsigned> &kept,
                                            const EliminationOptions &options) {
  std::shared_ptr<const BucketLayout> layout = makeBucketLayout(problem, kept, options.mostEntries, TooLarge::GiveUp);
  if (!layout)
    return std::nullopt;
  BucketTree tree(layout, {1, options.secondsPerByte});
  std::vector<double> values = tree.keptValues();
  return Elimination(std::make_unique<State>(State{std::move(tree), std::move(values)}));
}

std::optional<EliminationPlan> EliminationPlan::make(const ChoiceProblem &problem, const std::vector<unsigned> &kept,
                                                     uint64_t mostEntries, SharedLayouts &layouts) {
  std::optional<SharedLayouts::Match> found = layouts.find(problem, kept, mostEntries);
  if (!found)
    return std::nullopt;
  EliminationPlan plan;
  plan.lanes = std::move(found->lanes);
  plan.numbers = std::move(found->numbers);
  return plan;
}

Elimination EliminationPlan::run(const std::vector<std::vector<double>> &seconds) const {
  BucketTree tree(lanes->getLayout(), numbers, seconds);
  std::vector<double> values = tree.keptValues();
  return Elimination(std::make_unique<Elimination::State>(Elimination::State{std::move(tree), std::move(values)}));
}

std::vector<double> EliminationPlan::valuesOf(const std::vector<std::vector<double>> &seconds,
                                              std::vector<double> &memory) const {
  return lanes->keptValues(*numbers, seconds, memory);
}

void Elimination::setSecondsPerByte(double secondsPerByte) {
  state->tree.setObjective({1, secondsPerByte});
  state->values = state->tree.keptValues();
}

unsigned Elimination::width() const { return state->tree.getLayout().width; }
uint64_t Elimination::numEntries() const { return state->tree.getLayout().entries; }
const std::vector<double> &Elimination::values() const { return state->values; }

std::vector<unsigned> Elimination::choicesAt(const std::vector<unsigned> &kept) const {
  const BucketLayout &layout = state->tree.getLayout();
  std::vector<unsigned> choices(layout.reduction.alive.size());
  size_t entry = 0;
  for (size_t i = 0; i != layout.kept.size(); ++i) {
    choices[layout.kept[i]] = kept[i];
    entry = entry * layout.numChoices(layout.kept[i]) + kept[i];
  }
  if (std::isinf(state->values[entry]))
    return {};
  state->tree.complete(choices);
  return originalChoices(layout.reduction, choices);
}

std::optional<std::vector<std::vector<double>>> leastByChoice(const ChoiceProblem &problem, uint64_t mostEntries) {
  for (Drop drop : {Drop::Forbidden, Drop::Dominated}) {
    std::shared_ptr<const BucketLayout> layout = makeBucketLayout(problem, {}, mostEntries, TooLarge::GiveUp, drop);
    if (!layout)
      continue;
    std::vector<std::vector<double>> ofLeft = BucketTree(layout, Objective()).leastByChoice(), least;
    for (unsigned variable = 0; variable != ofLeft.size(); ++variable) {
      least.emplace_back(problem.domainOf(variable).size(), forbidden);
      for (unsigned choice = 0; choice != ofLeft[variable].size(); ++choice)
        least[variable][layout->reduction.alive[variable][choice]] = ofLeft[variable][choice];
    }
    return least;
  }
  return std::nullopt;
}

} // namespace cleave::solver
