// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills the tables of a layout, and reads choices back from them.

#include "passes/planner/solver/BucketTree.h"
#include "passes/planner/solver/MinSum.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace cleave::solver {
namespace {

/// A weight of zero times an infinite cost is infinite here.
double weighed(double weight, double cost) { return std::isinf(cost) ? cost : weight * cost; }

/// Runs over all combinations of a message's variables but the last: for each, the offsets of the terms.
class Odometer {
public:
  Odometer(const std::vector<size_t> &sizes, size_t numTerms, const std::vector<std::vector<size_t>> &strides)
      : sizes(sizes), strides(strides), at(sizes.size()), offsets(numTerms) {}

  const std::vector<size_t> &get() const { return offsets; }

  bool next() {
    for (size_t digit = sizes.size(); digit-- != 0;) {
      if (++at[digit] != sizes[digit]) {
        for (size_t term = 0; term != offsets.size(); ++term)
          offsets[term] += strides[term][digit];
        return true;
      }
      for (size_t term = 0; term != offsets.size(); ++term)
        offsets[term] -= strides[term][digit] * (sizes[digit] - 1);
      at[digit] = 0;
    }
    return false;
  }

private:
  const std::vector<size_t> &sizes;
  const std::vector<std::vector<size_t>> &strides; // by term, then by variable
  std::vector<size_t> at, offsets;
};

} // namespace

double Objective::of(const Choice &choice) const { return weighed(seconds, choice.seconds) + bytes * choice.bytes; }
double Objective::ofPair(double pairSeconds) const { return weighed(seconds, pairSeconds); }

BucketTree::BucketTree(std::shared_ptr<const BucketLayout> layout, const Objective &objective)
    : layout(std::move(layout)), objective(objective), numbers(this->layout->entries) {
  fillSources(/*withPairs=*/true);
  setObjective(objective);
}

BucketTree::BucketTree(std::shared_ptr<const BucketLayout> layout, std::shared_ptr<const PairNumbers> shared,
                       const std::vector<std::vector<double>> &seconds)
    : layout(std::move(layout)),
      numbers(this->layout->entries - (this->layout->firstMessage - this->layout->firstPair)),
      pairs(std::move(shared)) {
  const Reduction &reduction = this->layout->reduction;
  if (reduction.isInfeasible)
    return;
  auto costOf = [&](unsigned variable, unsigned choice) {
    return seconds[variable][reduction.alive[variable][choice]] + pairs->folded[variable][choice];
  };
  for (const BucketLayout::Source &source : this->layout->ownCosts)
    for (unsigned choice = 0; choice != this->layout->numChoices(source.index); ++choice)
      numbers[source.offset + choice] = costOf(source.index, choice);
  for (unsigned variable = 0; variable != reduction.alive.size(); ++variable)
    if (!reduction.isFree[variable])
      constant += costOf(variable, 0);
  computeAll();
}

void BucketTree::setObjective(const Objective &changed) {
  bool withPairs = changed.seconds != objective.seconds;
  objective = changed;
  constant = objective.of(layout->reduction.constant);
  if (layout->reduction.isInfeasible)
    return;
  fillSources(withPairs);
  computeAll();
}

void BucketTree::computeAll() {
  for (const Bucket &bucket : layout->buckets)
    for (unsigned message = bucket.firstMessage; message != bucket.lastMessage; ++message)
      if (!layout->messages[message].isShared)
        compute(bucket, layout->messages[message]);
}

void BucketTree::fillSources(bool withPairs) {
  for (const BucketLayout::Source &source : layout->ownCosts) {
    double *to = numbers.data() + source.offset;
    for (const Choice &choice : layout->reduction.costs[source.index])
      *to++ = objective.of(choice);
  }
  if (withPairs)
    fillPairs();
}

void BucketTree::fillPairs() {
  for (const BucketLayout::Source &source : layout->pairCosts) {
    const PairTable &table = layout->reduction.pairs[source.index];
    double *to = numbers.data() + source.offset;
    if (!source.isTransposed && objective.seconds == 1) {
      std::copy(table.seconds.begin(), table.seconds.end(), to);
      continue;
    }
    unsigned rows = source.isTransposed ? table.columns : table.rows;
    unsigned columns = source.isTransposed ? table.rows : table.columns;
    for (unsigned row = 0; row != rows; ++row)
      for (unsigned column = 0; column != columns; ++column)
        *to++ = objective.ofPair(source.isTransposed ? table.at(column, row) : table.at(row, column));
  }
}

void BucketTree::compute(const Bucket &bucket, const BucketMessage &message) {
  size_t numScope = message.scope.size(), count = numScope == 0 ? 1 : layout->numChoices(message.scope.back());
  size_t numChoices = layout->numChoices(bucket.variable);
  // Terms that contain the fastest variable come first: they are rows, the others are numbers.
  std::vector<const BucketTerm *> terms;
  for (unsigned term = message.firstTerm; term != message.lastTerm; ++term)
    terms.push_back(&layout->terms[term]);
  auto strideOf = [&](const BucketTerm *term, size_t i) { return layout->strides[term->strides + i]; };
  auto isRow = [&](const BucketTerm *term) { return numScope != 0 && strideOf(term, numScope) != 0; };
  size_t numRows = static_cast<size_t>(std::stable_partition(terms.begin(), terms.end(), isRow) - terms.begin());
  std::vector<size_t> sizes;
  for (size_t i = 0; i + 1 < numScope; ++i)
    sizes.push_back(layout->numChoices(message.scope[i]));
  std::vector<std::vector<size_t>> strides;
  strides.reserve(terms.size());
  std::vector<const double *> tables;
  for (const BucketTerm *term : terms)
    tables.push_back(numbersAt(term->offset));
  for (const BucketTerm *term : terms)
    strides.emplace_back(layout->strides.begin() + term->strides + 1,
                         layout->strides.begin() + term->strides + 1 + sizes.size());

  Odometer odometer(sizes, terms.size(), strides);
  std::vector<const double *> rows(numRows);
  double *least = numbers.data() + (numbersAt(message.offset) - numbers.data());
  do {
    std::fill(least, least + count, forbidden);
    for (size_t choice = 0; choice != numChoices; ++choice) {
      double base = 0;
      for (size_t term = 0; term != terms.size(); ++term) {
        const double *at = tables[term] + odometer.get()[term] + choice * strideOf(terms[term], 0);
        if (term < numRows)
          rows[term] = at;
        else
          base += *at;
      }
      if (std::isinf(base))
        continue;
      if (numRows == 0)
        *least = std::min(*least, base);
      else
        lowerToSum(least, base, rows.data(), numRows, count);
    }
    least += count;
  } while (odometer.next());
}

double BucketTree::rootsSum() const {
  double sum = constant;
  for (size_t root : layout->roots)
    sum += *numbersAt(root);
  return sum;
}

double BucketTree::least() const {
  assert(layout->kept.empty() && "kept variables have keptValues");
  return layout->reduction.isInfeasible ? forbidden : rootsSum();
}

std::vector<double> BucketTree::keptValues() const {
  size_t entries = 1;
  for (unsigned variable : layout->kept)
    entries *= layout->numChoices(variable);
  if (layout->reduction.isInfeasible)
    return std::vector<double>(entries, forbidden);
  std::vector<double> values(entries, rootsSum());
  for (const BucketLayout::Rest &rest : layout->rests)
    forEachPlace(layout->keptSizes(), rest.strides.data(),
                 [&, table = numbersAt(rest.offset)](size_t entry, size_t place) { values[entry] += table[place]; });
  return values;
}

void BucketTree::addTermsAt(const BucketMessage &message, const std::vector<unsigned> &choices, unsigned numChoices,
                            double *sums) const {
  for (unsigned term = message.firstTerm; term != message.lastTerm; ++term) {
    const size_t *strides = layout->strides.data() + layout->terms[term].strides;
    const double *at = numbersAt(layout->terms[term].offset);
    for (size_t i = 0; i != message.scope.size(); ++i)
      at += strides[i + 1] * choices[message.scope[i]];
    for (unsigned choice = 0; choice != numChoices; ++choice)
      sums[choice] += at[choice * strides[0]];
  }
}

double BucketTree::sumAt(const BucketMessage &message, const std::vector<unsigned> &choices) const {
  size_t offset = 0;
  for (unsigned variable : message.scope)
    offset = offset * layout->numChoices(variable) + choices[variable];
  return numbersAt(message.offset)[offset];
}

void BucketTree::increasesAt(const Bucket &bucket, const std::vector<unsigned> &choices, double *increases) const {
  unsigned numChoices = layout->numChoices(bucket.variable);
  std::fill(increases, increases + numChoices, 0.0);
  double least = 0;
  for (unsigned i = bucket.firstMessage; i != bucket.lastMessage; ++i) {
    addTermsAt(layout->messages[i], choices, numChoices, increases);
    least += sumAt(layout->messages[i], choices);
  }
  for (unsigned choice = 0; choice != numChoices; ++choice)
    if (!std::isinf(increases[choice]))
      increases[choice] = std::max(0.0, increases[choice] - least);
}

void BucketTree::complete(std::vector<unsigned> &choices) const {
  std::vector<double> sums;
  for (size_t i = layout->buckets.size(); i-- != 0;) {
    const Bucket &bucket = layout->buckets[i];
    sums.assign(layout->numChoices(bucket.variable), 0.0);
    for (unsigned message = bucket.firstMessage; message != bucket.lastMessage; ++message)
      addTermsAt(layout->messages[message], choices, static_cast<unsigned>(sums.size()), sums.data());
    choices[bucket.variable] = static_cast<unsigned>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  }
}

std::vector<unsigned> originalChoices(const Reduction &reduction, const std::vector<unsigned> &choices) {
  std::vector<unsigned> original(choices.size());
  for (unsigned variable = 0; variable != choices.size(); ++variable)
    original[variable] = reduction.alive[variable][choices[variable]];
  return original;
}

} // namespace cleave::solver
