// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a model has done since it was loaded, in the counts that Triton's metrics have.

#ifndef CLEAVE_RUNTIME_SERVE_MODELSTATISTICS_H
#define CLEAVE_RUNTIME_SERVE_MODELSTATISTICS_H

#include "runtime/serve/InferenceJob.h"

#include <array>
#include <map>
#include <mutex>

namespace cleave::runtime::serve {

/// Safe to call from any thread.
class ModelStatistics {
public:
  /// Counts and nanoseconds, since the beginning.
  struct Counts {
    uint64_t succeeded = 0, samples = 0, batches = 0;
    std::map<Outcome, uint64_t> failed;
    /// Of requests that succeeded: in all, queued, and of their batches.
    int64_t request = 0, queue = 0, gathering = 0, running = 0, scattering = 0;
    std::map<uint64_t, uint64_t> batchesOfSamples; ///< by the number of samples, without padding
    /// By bound of `latencyBounds`, the requests that took no longer; the last one counts all.
    std::array<uint64_t, 18> latencies = {};
    double latencySeconds = 0;
  };
  /// Seconds of Counts::latencies; the last bound is infinite.
  static constexpr std::array<double, 17> latencyBounds = {
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

  void countRequest(const InferenceJob &job, Outcome outcome);
  void countBatch(uint64_t samples);
  Counts counts() const;

private:
  mutable std::mutex mutex;
  Counts sums;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_MODELSTATISTICS_H
