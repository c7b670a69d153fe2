// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What single requests went through, for Perfetto and Chrome.

#ifndef CLEAVE_RUNTIME_SERVE_REQUESTTRACE_H
#define CLEAVE_RUNTIME_SERVE_REQUESTTRACE_H

#include "runtime/Trace.h"
#include "runtime/serve/InferenceJob.h"

#include <mutex>

namespace cleave::runtime::serve {

/// Filled by the model, batch by batch.
struct RequestTrace {
  struct Batch {
    int64_t begin = 0, gathered = 0, computed = 0, end = 0; ///< nanoseconds
    uint64_t ownSamples = 0, samples = 0, size = 0;         ///< size: with padding
  };
  std::vector<Batch> batches;
  Trace devices;                     ///< the instructions of these batches, of those that ran where the first one did
  std::shared_ptr<const void> ranOn; ///< the plan of the first one
  size_t instance = 0;               ///< of the first one
};

/// A request that is over; nanoseconds, 0: not yet.
struct TracedRequest {
  uint64_t samples = 0;
  JobTimes times;
  int64_t admitted = 0; ///< by its header
  int64_t answered = 0, sent = 0;
  std::shared_ptr<const RequestTrace> trace;

  /// From the request's first byte on, with the devices, as JSON.
  std::string text() const;
};

/// The latest requests with a trace. Safe to call from any thread, but for `keep`.
class TraceStore {
public:
  /// Sets how many are kept.
  void keep(size_t number) { most = number; }
  size_t kept() const { return most; }
  /// The number by which it is found.
  uint64_t add(TracedRequest request);
  void setSent(uint64_t number, int64_t time);
  std::optional<TracedRequest> find(const std::string &number) const;

private:
  size_t most = 0;
  mutable std::mutex mutex;
  uint64_t count = 0;
  std::map<uint64_t, TracedRequest> requests;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_REQUESTTRACE_H
