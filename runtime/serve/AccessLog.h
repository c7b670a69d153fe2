// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A line of JSON for each request that was answered.

#ifndef CLEAVE_RUNTIME_SERVE_ACCESSLOG_H
#define CLEAVE_RUNTIME_SERVE_ACCESSLOG_H

#include "runtime/serve/InferenceJob.h"

#include <cstdio>
#include <mutex>

namespace cleave::runtime::serve {

/// What a line says.
struct AccessEntry {
  std::string peer, method, target, id;
  unsigned status = 0;
  uint64_t requestBytes = 0, responseBytes = 0;
  int64_t nanoseconds = 0; ///< from the request's first byte to the answer
  /// Of inference; null of others.
  std::shared_ptr<const InferenceJob> job;
};

/// Safe to call from any thread.
class AccessLog {
public:
  /// Appends to the file; "-" is standard error. Status::Failure where it cannot be opened.
  static Expected<std::unique_ptr<AccessLog>> open(const std::string &file);
  ~AccessLog();
  void write(const AccessEntry &entry);

private:
  explicit AccessLog(std::FILE *file) : file(file) {}
  std::mutex mutex;
  std::FILE *file;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_ACCESSLOG_H
