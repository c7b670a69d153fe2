// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long a batch of each size takes: predicted before the first request, corrected by every batch that ran.

#ifndef CLEAVE_RUNTIME_SERVE_BATCHTABLE_H
#define CLEAVE_RUNTIME_SERVE_BATCHTABLE_H

#include "runtime/Error.h"

#include <cstdint>
#include <vector>

namespace cleave::runtime::serve {

/// A batch of up to `samples`, smaller ones being padded, and what it takes.
struct BatchSize {
  uint32_t samples = 1;
  double seconds = 0;
};

/// The sizes that a plan has entries for. A size that has run is believed as far as it has run; until then it takes
/// what was predicted times what the others took of their predictions, as a machine that is slower is so at all sizes.
/// Of one that has not run for a hundred batches the best that it took is believed, so that it is tried again.
class BatchTable {
public:
  /// Status::Rejected where sizes are not increasing from at least 1, or seconds not positive and finite.
  static Expected<BatchTable> create(std::vector<BatchSize> predicted);

  size_t size() const { return rows.size(); }
  uint32_t samples(size_t index) const { return rows[index].samples; }
  uint32_t largest() const { return rows.back().samples; }
  double predictedSeconds(size_t index) const { return rows[index].predicted; }
  double seconds(size_t index) const;
  /// The least that it has taken of late, by 5 % more for each time that it took longer.
  double leastSeconds(size_t index) const { return rows[index].least; }
  /// Whether a batch of this size has run.
  bool isMeasured(size_t index) const { return rows[index].weight > 0; }
  /// The size that gives most samples a second.
  size_t fastest() const;
  /// The smallest size of at least so many samples; the largest where there is none.
  size_t fitting(uint64_t samples) const;
  /// Samples a second of the size that gives most.
  double capacity() const;

  /// A batch of this size took so long. Ignored unless positive and finite.
  void measure(size_t index, double seconds);

private:
  struct Row {
    uint32_t samples = 1;
    double predicted = 0;
    /// The logarithm of measured over predicted seconds, averaged with exponential forgetting, and what the average
    /// is worth in measurements.
    double ratio = 0, weight = 0;
    double least = 0, best = 0; ///< seconds
    uint64_t age = 0;           ///< batches of other sizes since it has run
  };
  explicit BatchTable(std::vector<Row> rows) : rows(std::move(rows)) {}

  std::vector<Row> rows;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_BATCHTABLE_H
