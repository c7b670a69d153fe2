// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX Runtime as the peer that a benchmark measures against, each time in a process of its own: its threads spin, so
// nothing else may be timed while it lives.

#ifndef CLEAVE_TOOLS_CLEAVE_ONNXRUNTIMEPEER_H
#define CLEAVE_TOOLS_CLEAVE_ONNXRUNTIMEPEER_H

#include "tools/cleave/Diagnostics.h"

#include <map>
#include <vector>

namespace cleave::tool {

class OnnxRuntimePeer {
public:
  struct Result {
    std::string version;
    double medianMilliseconds = 0;
  };

  /// `script` is tools/bench/onnxruntime.mjs; empty: found beside the program. Status::Failure without it or node.
  static Expected<OnnxRuntimePeer> create(const std::string &script);

  /// Times `repeat` runs after a warm-up, in a process that has ended when this returns. `inputs` are TensorProto
  /// files by name or "@N".
  Expected<Result> measure(const std::string &model, const std::map<std::string, std::string> &inputs, unsigned threads,
                           unsigned repeat) const;

private:
  std::string node, script;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_ONNXRUNTIMEPEER_H
