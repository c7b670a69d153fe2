// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks a server again and again, and says how long answers took: by clients that wait for each answer (a closed loop),
// or at a rate, whatever the answers do (an open one).

#ifndef CLEAVE_RUNTIME_SERVE_LOADGENERATOR_H
#define CLEAVE_RUNTIME_SERVE_LOADGENERATOR_H

#include "runtime/Error.h"

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace cleave::runtime::serve {

struct LoadOptions {
  std::string url;         ///< "http://HOST:PORT" or "https://HOST:PORT"
  std::string authorities; ///< HttpClient::create
  std::string model, version;
  std::string tokenFile;
  unsigned clients = 1; ///< connections
  double seconds = 10;
  /// Requests a second, with exponential gaps; 0: each client asks when it has its answer.
  double rate = 0;
  uint64_t samples = 1; ///< of a request
  /// An answer counts as good within so many milliseconds, which the server is told; 0: any does.
  double deadlineMs = 0;
  bool expectsContinue = false; ///< bodies are sent once the server has said that it takes them
  uint64_t seed = 1;
  std::string jsonFile;
};

/// What came of it. In an open loop latencies count from when a request was to be sent, so that a server that is slow
/// does not make its own load lighter.
struct LoadReport {
  double seconds = 0;
  /// Of processors, that the load itself took: where it shares them with the server, the server did not have them.
  double processorSeconds = 0;
  std::vector<double> latencies; ///< seconds, of answers with status 200, in ascending order
  uint64_t good = 0;             ///< of these, in time
  std::map<unsigned, uint64_t> statuses;
  uint64_t broken = 0; ///< exchanges without an answer
  double inputBytes = 0;

  /// The latency that this share of the answers does not exceed; 0 without answers.
  double percentile(double share) const;
  void print(std::ostream &out, uint64_t samples) const;
  void writeJson(std::ostream &out, const LoadOptions &options) const;
};

/// Asks the server for its model's inputs, fills them with random numbers, and runs the load. Status::Failure when
/// there is no server or no such model.
Expected<LoadReport> generateLoad(const LoadOptions &options);

/// The command: the report on `out` and in the file, errors on `err`; the exit code.
int loadCommand(const LoadOptions &options, std::ostream &out, std::ostream &err);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_LOADGENERATOR_H
