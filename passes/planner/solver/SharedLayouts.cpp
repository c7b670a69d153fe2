// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts by all that they follow from.

#include "passes/planner/solver/SharedLayouts.h"

#include <cmath>

namespace cleave::solver {
namespace {

/// A problem without its numbers, as text to compare.
class FormWriter {
public:
  std::string write(const ChoiceProblem &problem, const std::vector<unsigned> &kept) {
    addAll(kept);
    addAll(problem.variables);
    add(problem.domains.size());
    for (const std::vector<Choice> &domain : problem.domains)
      addForbidden(domain.size(), [&](size_t choice) { return domain[choice].seconds; });
    add(problem.pairs.size());
    for (const PairTable &table : problem.pairs) {
      add(table.columns);
      addForbidden(table.seconds.size(), [&](size_t entry) { return table.seconds[entry]; });
    }
    for (const Edge &edge : problem.edges)
      for (unsigned part : {edge.first, edge.second, edge.table})
        add(part);
    return std::move(form);
  }

private:
  void add(uint64_t number) { form.append(reinterpret_cast<const char *>(&number), sizeof(number)); }

  void addAll(const std::vector<unsigned> &numbers) {
    add(numbers.size());
    for (unsigned number : numbers)
      add(number);
  }

  /// Which of some costs are forbidden, eight in a byte.
  template <typename CostAt> void addForbidden(size_t count, CostAt costAt) {
    add(count);
    for (size_t begin = 0; begin < count; begin += 8) {
      unsigned bits = 0;
      for (size_t index = begin; index != std::min(begin + 8, count); ++index)
        bits |= unsigned(std::isinf(costAt(index))) << (index - begin);
      form.push_back(static_cast<char>(bits));
    }
  }

  std::string form;
};

/// What is another problem's is not kept.
void removeNumbers(Reduction &reduction) {
  reduction.costs.clear();
  reduction.folded.clear();
  reduction.pairs.clear();
}

} // namespace

std::shared_ptr<const PairNumbers> pairNumbersOf(const ChoiceProblem &problem, const BucketLayout &layout) {
  const Reduction &reduction = layout.reduction;
  auto numbers = std::make_shared<PairNumbers>();
  if (reduction.isInfeasible)
    return numbers;
  std::vector<PairTable> joined;
  joined.reserve(reduction.sources.size());
  for (const Reduction::PairSource &source : reduction.sources) {
    joined.push_back(joinedPair(problem, reduction, source));
    if (foldOf(joined.back()) != source.fold)
      return nullptr;
  }
  for (const std::vector<unsigned> &alive : reduction.alive)
    numbers->folded.emplace_back(alive.size(), 0.0);
  for (const Edge &edge : problem.edges)
    for (size_t i = 0; edge.first == edge.second && i != reduction.alive[edge.first].size(); ++i) {
      unsigned choice = reduction.alive[edge.first][i];
      numbers->folded[edge.first][i] += problem.pairs[edge.table].at(choice, choice);
    }
  for (auto [variable, pair] : reduction.foldings)
    addFolded(joined[pair], reduction.sources[pair].fold, numbers->folded[variable]);
  numbers->pairs.reserve(layout.firstMessage - layout.firstPair);
  for (const BucketLayout::Source &source : layout.pairCosts) {
    const PairTable &table = joined[source.index];
    if (!source.isTransposed)
      numbers->pairs.insert(numbers->pairs.end(), table.seconds.begin(), table.seconds.end());
    else
      for (unsigned column = 0; column != table.columns; ++column)
        for (unsigned row = 0; row != table.rows; ++row)
          numbers->pairs.push_back(table.at(row, column));
  }
  return numbers;
}

std::optional<SharedLayouts::Match> SharedLayouts::find(const ChoiceProblem &problem, const std::vector<unsigned> &kept,
                                                        uint64_t mostEntries) {
  std::vector<std::shared_ptr<const BucketLanes>> &alike = known[FormWriter().write(problem, kept)];
  for (const std::shared_ptr<const BucketLanes> &lanes : alike)
    if (std::shared_ptr<const PairNumbers> numbers = pairNumbersOf(problem, *lanes->getLayout()))
      return Match{lanes, numbers};
  std::shared_ptr<const BucketLayout> found =
      makeBucketLayout(problem, kept, mostEntries, TooLarge::GiveUp, Drop::Forbidden);
  if (!found)
    return std::nullopt;
  auto layout = std::make_shared<BucketLayout>(*found);
  removeNumbers(layout->reduction);
  alike.push_back(std::make_shared<const BucketLanes>(layout));
  return Match{alike.back(), pairNumbersOf(problem, *layout)};
}

} // namespace cleave::solver
