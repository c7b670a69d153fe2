// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as a server sees it: one model, which takes samples in batches of the sizes that the plan has entries for, or
// whole inputs where it has one entry without batches.

#ifndef CLEAVE_RUNTIME_SERVE_BATCHEDPLAN_H
#define CLEAVE_RUNTIME_SERVE_BATCHEDPLAN_H

#include "runtime/Executor.h"
#include "runtime/serve/BatchTable.h"

namespace cleave::runtime::serve {

/// An input or output, without the samples' dimension where the model batches.
struct ServedPort {
  std::string name;
  TensorType type;

  /// The type of so many samples together; of a model without batches `type`.
  TensorType ofSamples(uint64_t samples, bool isBatched) const {
    TensorType whole = type;
    if (isBatched)
      whole.shape.insert(whole.shape.begin(), static_cast<int64_t>(samples));
    return whole;
  }
};

/// The entries of a plan that infer.
class BatchedPlan {
public:
  /// Entries "batch/N" by increasing N, or the first entry. Status::Rejected where the plan does not verify,
  /// Status::Usage where it trains, or its batches disagree about a port.
  static Expected<BatchedPlan> open(Plan plan);

  const Plan &getPlan() const { return plan; }
  bool isBatched() const { return batched; }
  const std::vector<ServedPort> &getInputs() const { return inputs; }
  const std::vector<ServedPort> &getOutputs() const { return outputs; }
  /// The names of the entries, by size, and what each is predicted to take.
  const std::vector<std::string> &getEntries() const { return entries; }
  const BatchTable &getTable() const { return table; }
  /// An executor of all of these entries, by their places.
  Expected<std::unique_ptr<Executor>> createExecutor(ParameterSource &parameters, ExecutorOptions options) const;
  /// Devices that work one after the other in a step: as many batches can be in work at a time.
  unsigned numStages() const { return stages; }

private:
  BatchedPlan(Plan plan, BatchTable table) : plan(std::move(plan)), table(std::move(table)) {}

  Plan plan;
  BatchTable table;
  bool batched = false;
  unsigned stages = 1;
  std::vector<std::string> entries;
  std::vector<ServedPort> inputs, outputs;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_BATCHEDPLAN_H
