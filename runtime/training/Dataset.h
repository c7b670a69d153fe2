// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples of all inputs of an entry, from a file for each.

#ifndef CLEAVE_RUNTIME_TRAINING_DATASET_H
#define CLEAVE_RUNTIME_TRAINING_DATASET_H

#include "runtime/training/SampleData.h"
#include "runtime/training/TrainingData.h"

namespace cleave::runtime {

/// As many samples for each input, in the order that randomOrder gives; those that fill no batch are left out of an
/// epoch.
class Dataset : public TrainingData {
public:
  /// A file for each input as `bindings` say ("NAME=FILE", see SampleData), scaled as `scales` say ("NAME=FACTOR" or
  /// "NAME=FACTOR,OFFSET"). `option` is what messages call the bindings. The entry must train or evaluate.
  /// Status::Usage for an input without a file, Status::Failure for files that do not fit the inputs or each other.
  static Expected<Dataset> read(const Entry &entry, const std::vector<std::string> &bindings,
                                const std::vector<std::string> &scales, const char *option);

  uint64_t samples() const override { return count; }
  Expected<BatchOrder> rest(uint64_t seed, uint64_t epoch, uint64_t taken) const override;
  BatchOrder all() const override;
  Expected<Batch> allocate() const override;
  void fill(Batch &batch, uint32_t bucket, std::span<const uint64_t> which) const override;
  bool masks() const override { return hasLabels; }

private:
  /// The entry's samples, and its inputs but for versions of parameters, which follow the others.
  uint64_t batch = 0;
  std::vector<Port> ports;
  std::vector<SampleData> inputs;
  uint64_t count = 0;
  bool hasLabels = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_DATASET_H
