// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A request on its way through a model: its tensors, how urgent it is, and what became of it.

#ifndef CLEAVE_RUNTIME_SERVE_INFERENCEJOB_H
#define CLEAVE_RUNTIME_SERVE_INFERENCEJOB_H

#include "runtime/HostTensor.h"
#include "runtime/serve/RequestQueue.h"

#include <functional>
#include <memory>
#include <optional>

namespace cleave::runtime::serve {

/// Why a request got no answer.
enum class Outcome {
  Answered,
  Full,      ///< the queue had no place
  Late,      ///< it would not have been over by its deadline
  Cancelled, ///< its client went away
  Draining,  ///< the model takes no more
  Failed     ///< its batch failed
};

/// Nanoseconds of the steady clock; 0: it did not come to this.
struct JobTimes {
  int64_t arrival = 0; ///< of its first byte
  int64_t queued = 0;  ///< when all of it had come
  int64_t start = 0;   ///< of its first batch
  int64_t end = 0;
  /// Of its batches: bringing samples together, running, taking results apart.
  int64_t gathering = 0, running = 0, scattering = 0;
};

struct RequestTrace;

/// Filled by whoever asks, `times.arrival` too; `outputs`, `error` and other times by the model until `done` is called,
/// once, by any thread.
struct InferenceJob {
  uint64_t samples = 1;
  /// By position, whole: with `samples` in dimension 0 where the model batches.
  std::vector<HostTensor> inputs, outputs;
  uint32_t priority = 0;
  Time deadline = never;
  std::function<void(Outcome)> done;

  /// Filled by a model that records (ServedModelOptions::tracesRequests); null: not traced.
  std::shared_ptr<RequestTrace> trace;

  std::optional<RequestId> id; ///< given by the model when the job is announced, or else when it is submitted
  uint64_t samplesOver = 0;
  JobTimes times;
  Error error;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_INFERENCEJOB_H
