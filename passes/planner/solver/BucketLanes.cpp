// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BucketTree's loops, a vector for a number.

#include "passes/planner/solver/BucketLanes.h"

#include <algorithm>

namespace cleave::solver {

BucketLanes::BucketLanes(std::shared_ptr<const BucketLayout> from) : layout(std::move(from)) {
  if (layout->reduction.isInfeasible)
    return;
  for (const Bucket &bucket : layout->buckets)
    for (unsigned index = bucket.firstMessage; index != bucket.lastMessage; ++index) {
      const BucketMessage &message = layout->messages[index];
      if (message.isShared)
        continue;
      Step &step = steps.emplace_back();
      step.numChoices = layout->numChoices(bucket.variable);
      step.offset = message.offset;
      step.entries = message.entries;
      for (unsigned variable : message.scope)
        step.sizes.push_back(layout->numChoices(variable));
      size_t last = step.sizes.size();
      if (last != 0) {
        step.count = step.sizes.back();
        step.sizes.pop_back();
      }
      for (unsigned term = message.firstTerm; term != message.lastTerm; ++term) {
        size_t offset = layout->terms[term].offset;
        step.terms.push_back({isPair(offset) ? offset - layout->firstPair : offset, isPair(offset),
                              layout->strides.data() + layout->terms[term].strides});
      }
      auto isRow = [&](const Step::Term &term) { return last != 0 && term.strides[last] != 0; };
      std::stable_sort(step.terms.begin(), step.terms.end(), [&](const Step::Term &left, const Step::Term &right) {
        return std::pair(!isRow(left), left.isShared) < std::pair(!isRow(right), right.isShared);
      });
      step.numRows = static_cast<size_t>(std::count_if(step.terms.begin(), step.terms.end(), isRow));
    }
}

void BucketLanes::compute(const Step &step, const double *pairs, double *numbers) const {
  std::vector<size_t> at(step.sizes.size()), offsets;
  for (const Step::Term &term : step.terms)
    offsets.push_back(term.offset);
  std::vector<LaneRow> rows(step.numRows);
  const double zero[numLanes] = {};
  double *least = numbers + step.offset * numLanes, *end = least + step.entries * numLanes;
  std::fill(least, end, forbidden);
  while (true) {
    for (unsigned choice = 0; choice != step.numChoices; ++choice) {
      double base[numLanes] = {};
      for (size_t index = 0; index != step.terms.size(); ++index) {
        const Step::Term &term = step.terms[index];
        size_t offset = offsets[index] + choice * term.strides[0];
        const double *from = term.isShared ? pairs + offset : numbers + offset * numLanes;
        if (index < step.numRows)
          rows[index] = {from, term.isShared};
        else
          for (unsigned lane = 0; lane != numLanes; ++lane)
            base[lane] += term.isShared ? *from : from[lane];
      }
      if (step.numRows == 0) {
        LaneRow row = {base, false};
        lowerLanes(least, zero, &row, 1, 1);
      } else {
        lowerLanes(least, base, rows.data(), rows.size(), step.count);
      }
    }
    least += step.count * numLanes;
    size_t digit = step.sizes.size();
    for (; digit != 0; --digit) {
      bool isNext = ++at[digit - 1] != step.sizes[digit - 1];
      for (size_t index = 0; index != offsets.size(); ++index) {
        size_t stride = step.terms[index].strides[digit];
        offsets[index] += isNext ? stride : -stride * (step.sizes[digit - 1] - 1);
      }
      if (isNext)
        break;
      at[digit - 1] = 0;
    }
    if (digit == 0)
      return;
  }
}

std::vector<double> BucketLanes::keptValues(const PairNumbers &pairs, const std::vector<std::vector<double>> &seconds,
                                            std::vector<double> &numbers) const {
  const Reduction &reduction = layout->reduction;
  size_t entries = 1;
  for (unsigned variable : layout->kept)
    entries *= layout->numChoices(variable);
  if (reduction.isInfeasible)
    return std::vector<double>(entries * numLanes, forbidden);
  if (numbers.size() < layout->entries * numLanes)
    numbers.resize(layout->entries * numLanes);
  double sum[numLanes] = {};
  auto forEachCost = [&](unsigned variable, unsigned choice, auto take) {
    const double *own = seconds[variable].data() + size_t(reduction.alive[variable][choice]) * numLanes;
    double folded = pairs.folded[variable][choice];
    for (unsigned lane = 0; lane != numLanes; ++lane)
      take(lane, own[lane] + folded);
  };
  for (const BucketLayout::Source &source : layout->ownCosts)
    for (unsigned choice = 0; choice != layout->numChoices(source.index); ++choice)
      forEachCost(
          source.index, choice,
          [to = numbers.data() + (source.offset + choice) * numLanes](unsigned lane, double cost) { to[lane] = cost; });
  for (unsigned variable = 0; variable != reduction.alive.size(); ++variable)
    if (!reduction.isFree[variable])
      forEachCost(variable, 0, [&](unsigned lane, double cost) { sum[lane] += cost; });
  for (const Step &step : steps)
    compute(step, pairs.pairs.data(), numbers.data());
  // Adds a table's number for each lane, or the same one for all of them.
  auto add = [&](double *to, size_t table, size_t place) {
    if (isPair(table)) {
      double shared = pairs.pairs[table - layout->firstPair + place];
      for (unsigned lane = 0; lane != numLanes; ++lane)
        to[lane] += shared;
      return;
    }
    const double *from = numbers.data() + (table + place) * numLanes;
    for (unsigned lane = 0; lane != numLanes; ++lane)
      to[lane] += from[lane];
  };
  for (size_t root : layout->roots)
    add(sum, root, 0);
  std::vector<double> values;
  values.reserve(entries * numLanes);
  for (size_t entry = 0; entry != entries; ++entry)
    values.insert(values.end(), sum, sum + numLanes);
  for (const BucketLayout::Rest &rest : layout->rests)
    forEachPlace(layout->keptSizes(), rest.strides.data(),
                 [&](size_t entry, size_t place) { add(values.data() + entry * numLanes, rest.offset, place); });
  return values;
}

} // namespace cleave::solver
