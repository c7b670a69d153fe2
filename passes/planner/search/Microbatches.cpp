// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which numbers of microbatches are tried, and which of them on all grids.

#include "passes/planner/search/Searcher.h"

#include <cmath>

namespace cleave::search {

/// All numbers that divide the batch. Where the last microbatch may be smaller also those of microbatches of 2^n or
/// 3 * 2^n samples, or of 2^n for each device of a stage that shares the machine evenly with others, as long as what
/// is missing of the last one is little. More than a plan may have are not asked for.
std::set<int64_t> Searcher::possibleMicrobatches() const {
  if (!request.training)
    return {1};
  if (request.microbatches)
    return {*request.microbatches};
  std::set<int64_t> numbers;
  for (int64_t number = 1; number <= std::min(mostMicrobatches, batch()); ++number)
    if (batch() % number == 0)
      numbers.insert(number);
  if (!request.unequalMicrobatches)
    return numbers;
  std::set<int64_t> units = {1, 3};
  for (const Run &run : runs)
    for (unsigned size : evenSizes(run, intervals.numLayers()))
      if (run.count() % size == 0)
        for (unsigned inner = 1; inner <= run.hostSize; ++inner)
          if (run.hostSize % inner == 0)
            units.insert(size / inner);
  for (int64_t unit : units)
    for (int64_t samples = unit; samples <= batch(); samples *= 2) {
      int64_t number = (batch() + samples - 1) / samples;
      if (number <= mostMicrobatches && number * samples - batch() <= batch() / 8)
        numbers.insert(number);
    }
  return numbers;
}

/// Of some numbers the nearest to each power of 2^(1/parts).
static std::set<int64_t> nearPowers(const std::set<int64_t> &all, unsigned parts) {
  std::set<int64_t> near;
  for (unsigned power = 0;; ++power) {
    double wanted = std::exp2(static_cast<double>(power) / parts);
    if (wanted > static_cast<double>(*all.rbegin()))
      break;
    near.insert(*llvm::min_element(all, [&](int64_t left, int64_t right) {
      return std::abs(std::log(static_cast<double>(left) / wanted)) <
             std::abs(std::log(static_cast<double>(right) / wanted));
    }));
  }
  return near;
}

/// All numbers of microbatches to try; where there are too many, such as lie evenly among them.
std::set<int64_t> Searcher::microbatchNumbers() const {
  constexpr unsigned manyNumbers = 64;
  std::set<int64_t> all = possibleMicrobatches();
  return all.size() <= manyNumbers ? all : nearPowers(all, 4);
}

/// On machines of few devices all numbers of microbatches, if they are few, are searched on all grids.
static constexpr unsigned fewDevices = 8, fewNumbers = 16;

std::set<int64_t> Searcher::numbersOnAllGrids(const std::set<int64_t> &all) const {
  bool isSmall = machine.devices.size() <= fewDevices && all.size() <= fewNumbers;
  return isSmall ? all : nearPowers(all, 1);
}

} // namespace cleave::search
