// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors of one batch in work: samples of several requests side by side.

#ifndef CLEAVE_RUNTIME_SERVE_BATCHBUFFERS_H
#define CLEAVE_RUNTIME_SERVE_BATCHBUFFERS_H

#include "runtime/serve/BatchedPlan.h"
#include "runtime/serve/InferenceJob.h"

namespace cleave::runtime::serve {

/// Samples of a job in a batch: `count` from its sample number `first` on.
struct JobSlice {
  std::shared_ptr<InferenceJob> job;
  uint64_t first = 0, count = 0;
};

/// One for each batch in flight; each size gets its tensors when it is first used.
class BatchBuffers {
public:
  explicit BatchBuffers(const BatchedPlan &plan) : plan(plan), sets(plan.getEntries().size()) {}

  /// The tensors of a size. Status::Infeasible when memory is short.
  Error use(size_t size);
  const std::vector<HostTensor> &getInputs() const { return sets[current].inputs; }
  const std::vector<HostTensor> &getOutputs() const { return sets[current].outputs; }

  /// Copies the slices' samples into the inputs, one after the other, and fills the rest with zeros.
  void gather(const std::vector<JobSlice> &slices);
  /// Copies results back in the same order.
  void scatter(const std::vector<JobSlice> &slices) const;

private:
  struct Set {
    std::vector<HostTensor> inputs, outputs;
  };
  const BatchedPlan &plan;
  std::vector<Set> sets;
  size_t current = 0;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_BATCHBUFFERS_H
