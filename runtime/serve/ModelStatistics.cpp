// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums under a lock: a request costs one.

#include "runtime/serve/ModelStatistics.h"

namespace cleave::runtime::serve {

void ModelStatistics::countRequest(const InferenceJob &job, Outcome outcome) {
  std::lock_guard lock(mutex);
  if (outcome != Outcome::Answered) {
    ++sums.failed[outcome];
    return;
  }
  ++sums.succeeded;
  sums.samples += job.samples;
  int64_t taken = job.times.end - job.times.arrival;
  sums.request += taken;
  sums.queue += job.times.start - job.times.queued;
  sums.gathering += job.times.gathering;
  sums.running += job.times.running;
  sums.scattering += job.times.scattering;
  double seconds = static_cast<double>(taken) * 1e-9;
  sums.latencySeconds += seconds;
  for (size_t i = 0; i != latencyBounds.size(); ++i)
    sums.latencies[i] += seconds <= latencyBounds[i];
  ++sums.latencies.back();
}

void ModelStatistics::countBatch(uint64_t samples) {
  std::lock_guard lock(mutex);
  ++sums.batches;
  ++sums.batchesOfSamples[samples];
}

ModelStatistics::Counts ModelStatistics::counts() const {
  std::lock_guard lock(mutex);
  return sums;
}

} // namespace cleave::runtime::serve
