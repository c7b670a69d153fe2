// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ratios are averaged as logarithms: half as fast and twice as fast cancel.

#include "runtime/serve/BatchTable.h"

#include <algorithm>
#include <cmath>

namespace cleave::runtime::serve {

/// As many measurements as an average remembers.
static constexpr double memory = 32;
/// What all sizes say together counts for each as so many measurements.
static constexpr double priorWeight = 0.1;
/// A size that was slow of late, as when the machine was busy with something else, would never run again, and stay slow
/// for all anybody knows. So of one that has not run for `believedFor` batches of others the best is believed that it
/// took, more and more within as many batches again; the best grows by `bestGrowth` with each measurement that is
/// larger. What it took so long ago then counts little when it runs: less by e for each of as many batches.
static constexpr double believedFor = 64, bestGrowth = 1.01;
/// By how much the least measurement grows with each that is larger.
static constexpr double leastGrowth = 1.05;

Expected<BatchTable> BatchTable::create(std::vector<BatchSize> predicted) {
  if (predicted.empty())
    return reject("a table of batches expects at least one size, got none");
  std::vector<Row> rows;
  for (const BatchSize &size : predicted) {
    if (size.samples < 1 || (!rows.empty() && size.samples <= rows.back().samples))
      return reject("a table of batches expects increasing sizes, got ", size.samples, " samples after ",
                    rows.empty() ? 0 : rows.back().samples);
    if (!(size.seconds > 0) || !std::isfinite(size.seconds))
      return reject("a batch of ", size.samples, " samples expects a positive time, got ", size.seconds, " seconds");
    rows.push_back({size.samples, size.seconds});
  }
  return BatchTable(std::move(rows));
}

double BatchTable::seconds(size_t index) const {
  double sum = 0, weight = 0;
  for (const Row &row : rows) {
    sum += row.ratio * row.weight;
    weight += row.weight;
  }
  double common = weight > 0 ? sum / weight : 0;
  const Row &row = rows[index];
  double ratio = (row.ratio * row.weight + common * priorWeight) / (row.weight + priorWeight);
  double hope = std::clamp(static_cast<double>(row.age) / believedFor - 1, 0.0, 1.0);
  if (hope > 0 && row.weight > 0)
    ratio += hope * std::min(0.0, std::log(row.best / row.predicted) - ratio);
  return row.predicted * std::exp(ratio);
}

size_t BatchTable::fitting(uint64_t samples) const {
  auto found = std::ranges::find_if(rows, [&](const Row &row) { return row.samples >= samples; });
  return std::min<size_t>(static_cast<size_t>(found - rows.begin()), rows.size() - 1);
}

size_t BatchTable::fastest() const {
  size_t best = 0;
  for (size_t index = 1; index != rows.size(); ++index)
    if (samples(index) / seconds(index) > samples(best) / seconds(best))
      best = index;
  return best;
}

double BatchTable::capacity() const { return samples(fastest()) / seconds(fastest()); }

void BatchTable::measure(size_t index, double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds))
    return;
  Row &row = rows[index];
  row.least = row.weight > 0 ? std::min(seconds, row.least * leastGrowth) : seconds;
  row.best = row.weight > 0 ? std::min(seconds, row.best * bestGrowth) : seconds;
  double kept = row.weight * (1 - 1 / memory) * std::exp(-static_cast<double>(row.age) / believedFor);
  row.ratio = (row.ratio * kept + std::log(seconds / row.predicted)) / (kept + 1);
  row.weight = kept + 1;
  for (Row &other : rows)
    ++other.age;
  row.age = 0;
}

} // namespace cleave::runtime::serve
