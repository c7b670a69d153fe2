// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples of all inputs of an entry, and the batches that are made of them.

#ifndef CLEAVE_RUNTIME_TRAINING_DATASET_H
#define CLEAVE_RUNTIME_TRAINING_DATASET_H

#include "runtime/training/SampleData.h"

namespace cleave::runtime {

/// What a step takes. The first `samples` are meant; what stands behind them fills the batch.
struct Batch {
  std::vector<HostTensor> inputs;
  uint64_t samples = 0;
  /// Labels of these samples that are classes; their number where the entry has no labels.
  uint64_t labels = 0;
};

/// As many samples for each input. Immutable, so that threads may share it.
class Dataset {
public:
  /// A file for each input as `bindings` say ("NAME=FILE", see SampleData), scaled as `scales` say ("NAME=FACTOR" or
  /// "NAME=FACTOR,OFFSET"). `option` is what messages call the bindings. The entry must train or evaluate.
  /// Status::Usage for an input without a file, Status::Failure for files that do not fit the inputs or each other.
  static Expected<Dataset> read(const Entry &entry, const std::vector<std::string> &bindings,
                                const std::vector<std::string> &scales, const char *option);

  uint64_t samples() const { return count; }
  /// Tensors for the inputs of a step.
  Expected<Batch> allocate() const;
  /// Puts these samples into the batch, at most as many as fit. The rest is filled with the first of them; its labels,
  /// if the entry has any, are then -1, which counts for nothing.
  void fill(Batch &batch, std::span<const uint64_t> which) const;
  /// Whether a batch that is filled up computes just what its samples do.
  bool masks() const { return hasLabels; }

private:
  const Entry *entry = nullptr;
  std::vector<SampleData> inputs;
  uint64_t count = 0;
  bool hasLabels = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_DATASET_H
