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

/// Memory for one batch at a time, of whichever size: all sizes begin at the same place, so that samples can be copied
/// there before the size is known.
class BatchBuffers {
public:
  explicit BatchBuffers(const BatchedPlan &plan) : plan(plan) {}

  /// The tensors of a size. Status::Infeasible when memory is short.
  Error use(size_t size);
  const std::vector<HostTensor> &getInputs() const { return inputs; }
  const std::vector<HostTensor> &getOutputs() const { return outputs; }

  /// Whether all of these samples lie where they belong in a batch of them.
  bool isGathered(const std::vector<JobSlice> &slices) const;
  /// Copies samples, of jobs with ids, of which a batch may come to consist, to where they belong then. Expects that
  /// `use` has succeeded once, and that no batch is in work here.
  void gatherAhead(const std::vector<JobSlice> &slices);
  /// Brings the samples of jobs with ids together as the inputs of the size in use, one after the other, and fills the
  /// rest with zeros. Where one slice is the whole batch, its job's tensors are the inputs and outputs.
  void gather(const std::vector<JobSlice> &slices);
  /// Hands results out in the same order.
  void scatter(const std::vector<JobSlice> &slices) const;
  /// The batch is over: nothing of its jobs is kept.
  void release();

private:
  /// Whose samples lie where, one after the other from the first place on.
  struct Placed {
    RequestId id;
    uint64_t first, count;
    bool operator==(const Placed &) const = default;
  };
  Error allocate();
  bool isPlaced(size_t index, const JobSlice &slice) const;
  void copySamples(const JobSlice &slice, uint64_t place);
  bool borrow(const JobSlice &slice);

  const BatchedPlan &plan;
  std::vector<HostTensor> wholeInputs, wholeOutputs; ///< of the largest size; empty until they are needed
  std::vector<HostTensor> inputs, outputs;           ///< of the size in use
  std::vector<Placed> placed;
  size_t current = 0;
  bool isBorrowed = false; ///< inputs and outputs are a job's
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_BATCHBUFFERS_H
