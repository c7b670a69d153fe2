// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a model on devices of this host as any other model is run, and keeps what the runtime's trace says.

#ifndef CLEAVE_TOOLS_CLEAVE_PROBERUN_H
#define CLEAVE_TOOLS_CLEAVE_PROBERUN_H

#include "passes/import/OnnxProto.h"
#include "runtime/Plan.h"
#include "runtime/Trace.h"
#include "tools/cleave/Diagnostics.h"

namespace cleave::tool {

/// What is run, and for how long.
struct ProbeTask {
  onnx::ModelProto model;
  std::string machine;      ///< as for --machine
  std::string placement;    ///< the text of a placement file; empty: all on the first device
  double seconds = 1;       ///< to measure for
  unsigned fewestSteps = 5; ///< even where that takes longer
};

/// One run of a kernel, or one communication.
struct ProbeEvent {
  const runtime::Instruction *instruction = nullptr;
  uint32_t device = 0;
  uint64_t step = 0;
  double begin = 0, end = 0; ///< seconds
  double seconds() const { return end - begin; }
};

/// Which of the times of a kernel or a communication counts. Other programs make some of them longer, by far where they
/// take more than a slice of the scheduler's: one of the shortest is the device's own.
inline constexpr double measuredQuantile = 0.1;

/// What one node took.
struct NodeTime {
  double flops = 0, bytes = 0; ///< as the operator says of itself
  double seconds = 0;          ///< a low quantile over the steps
  double spread = 0;           ///< the distance of the quartiles as a part of that
};

/// A finished run.
class ProbeRun {
public:
  /// Compiles and runs; `folder` is for files that are needed on the way.
  static Expected<ProbeRun> measure(const ProbeTask &task, const std::string &folder);

  /// By name: the nodes that have kernels of their own and no other node's work in them. Bringing operands into another
  /// memory layout does not count: in a model a neighbour does that.
  std::map<std::string, NodeTime> nodeTimes() const;

  /// Kernels of nodes whose name begins so, in the order in which they began; of the body's measured steps.
  std::vector<ProbeEvent> kernels(llvm::StringRef prefix) const;
  /// Sends and receives, or collectives, whose instruction is a `Kind`.
  template <typename Kind> std::vector<ProbeEvent> communications() const {
    return select(
        [](const runtime::Instruction &instruction) { return std::holds_alternative<Kind>(instruction.action); });
  }
  /// Steps that were measured.
  unsigned steps() const { return lastStep - firstStep; }

private:
  ProbeRun(runtime::Plan plan) : plan(std::move(plan)), trace(std::make_unique<runtime::Trace>()) {}
  std::vector<ProbeEvent> select(llvm::function_ref<bool(const runtime::Instruction &)> isWanted) const;
  bool isReorder(const runtime::Call &call) const;

  runtime::Plan plan;
  std::unique_ptr<runtime::Trace> trace;
  uint64_t firstStep = 0, lastStep = 0;
};

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PROBERUN_H
