// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What training and evaluation take their batches from, whatever the samples are.

#ifndef CLEAVE_RUNTIME_TRAINING_TRAININGDATA_H
#define CLEAVE_RUNTIME_TRAINING_TRAININGDATA_H

#include "runtime/HostTensor.h"

#include <vector>

namespace cleave::runtime {

/// What a step takes. The first `samples` are meant; what stands behind them fills the batch.
struct Batch {
  /// By bucket, tensors for the inputs of its entry.
  std::vector<std::vector<HostTensor>> tensors;
  /// Which of the plan's lengths of sequences it is for; 0 where there is one.
  uint32_t bucket = 0;
  uint64_t samples = 0;
  /// Labels of these samples that are classes; their number where the entry has no labels.
  uint64_t labels = 0;

  const std::vector<HostTensor> &inputs() const { return tensors[bucket]; }
};

/// Batches, one after the other.
struct BatchOrder {
  struct Item {
    uint32_t bucket = 0;
    uint64_t begin = 0, count = 0; ///< of `samples`
  };
  std::vector<uint64_t> samples;
  std::vector<Item> batches;

  std::span<const uint64_t> samplesOf(const Item &item) const {
    return std::span(samples).subspan(item.begin, item.count);
  }
};

/// Samples and their batches. Immutable, so that threads may share it.
class TrainingData {
public:
  virtual ~TrainingData() = default;

  virtual uint64_t samples() const = 0;
  /// What is left of an epoch of which steps have taken so many samples: a function of the seed and the epoch, the same
  /// in every process. Status::Failure where no batch begins behind these samples.
  virtual Expected<BatchOrder> rest(uint64_t seed, uint64_t epoch, uint64_t taken) const = 0;
  /// All samples once, in order; the last batches may not be full.
  virtual BatchOrder all() const = 0;

  /// Tensors for the inputs of steps.
  virtual Expected<Batch> allocate() const = 0;
  /// Puts these samples into the batch, at most as many as fit. The rest is filled with the first of them; its labels,
  /// if the entry has any, are then -1, which counts for nothing.
  virtual void fill(Batch &batch, uint32_t bucket, std::span<const uint64_t> which) const = 0;
  /// Whether a batch that is filled up computes just what its samples do.
  virtual bool masks() const = 0;
  /// Whether the loss is one of tokens that follow others, so that its exponential is a perplexity.
  virtual bool isText() const { return false; }
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_TRAININGDATA_H
