// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The peers that a benchmark measures against, ONNX Runtime and PyTorch, each time in a process of its own: their
// threads spin or wait, so nothing else may be timed while one lives.

#ifndef CLEAVE_TOOLS_CLEAVE_BENCHPEER_H
#define CLEAVE_TOOLS_CLEAVE_BENCHPEER_H

#include "tools/cleave/Diagnostics.h"

#include <map>
#include <vector>

namespace cleave::tool {

/// What a peer is asked to time.
struct PeerRequest {
  std::string model;
  /// TensorProto files by the input's name or "@N"; other inputs are generated.
  std::map<std::string, std::string> inputs;
  /// Sizes of symbolic dimensions, by name.
  std::map<std::string, int64_t> dims;
  unsigned threads = 1, repeat = 20;
};

class BenchPeer {
public:
  struct Result {
    std::string version;
    /// In which of several ways the peer was fastest; empty where there is one.
    std::string variant;
    double medianMilliseconds = 0;
  };

  /// The names that `create` knows: "onnxruntime", "torch".
  static std::vector<std::string> names();

  /// A peer by its name. `script` runs it, as tools/bench/onnxruntime.mjs and torch_peer.py do; empty: found beside the
  /// program. Status::Failure without it or the program that runs it.
  static Expected<BenchPeer> create(const std::string &name, const std::string &script);

  /// Times runs after a warm-up, in a process that has ended when this returns.
  Expected<Result> measure(const PeerRequest &request) const;

private:
  std::string title, program, script;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_BENCHPEER_H
