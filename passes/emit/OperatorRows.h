// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model's operators as people see them: where each one runs, who decided it, which kernel computes it, what it
// costs.

#ifndef CLEAVE_PASSES_EMIT_OPERATORROWS_H
#define CLEAVE_PASSES_EMIT_OPERATORROWS_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/KeyExchange.h"
#include "dialects/plan/Plan.h"

#include <string>
#include <vector>

namespace cleave {

/// Seconds by program and by instruction of its body.
using InstructionSeconds = std::vector<std::vector<double>>;

/// One node of the model; several `dfg` operators may make it up. Sizes are bytes.
struct OperatorRow {
  std::string name, kind;
  /// Of its operator with most work: the symbol of its dist.mesh, "batch/data 2, out_channel/model 4" or "", and who
  /// decided it.
  std::string mesh, split, decidedBy;
  /// Of a graph without programs, about which decisions are all that there is: of each of its operators.
  std::vector<std::string> splits;
  uint32_t ways = 1;                   ///< the parts that this split makes
  std::string kernel;                  ///< the symbol of the kernel that computes it in a step, or ""
  std::string fusedWith;               ///< the node whose kernel computes it, or ""
  std::vector<uint32_t> inputs;        ///< rows that produce its operands, ascending
  std::vector<std::string> parameters; ///< that its operators read
  double flops = 0, bytes = 0;
  double receivedBytes = 0; ///< that other devices send for it, a step
  double parameterBytes = 0, resultBytes = 0;
  /// Of a step, for its kernels and for communication, and of that for communication alone: what brings its operands
  /// into place or joins its parts. -1 where nobody knows, and where another node's kernel computes it.
  double seconds = -1, communicationSeconds = -1;
  std::vector<int64_t> shape; ///< of the first result of its last operator
  /// Of a softmax of attention over cut queries and keys.
  std::optional<dist::KeyExchange> keys;
};

/// The `plan.program`s of a graph: those that are named GRAPH.MESH.
llvm::SmallVector<plan::ProgramOp> programsOf(dfg::GraphOp graph);

/// A row for every placed node of a graph, in order of first appearance. The kernels and the received bytes are those
/// of its `plan.program`s, and so are the seconds, if those of the instructions are given.
std::vector<OperatorRow> collectOperatorRows(dfg::GraphOp graph, const InstructionSeconds &seconds = {});

} // namespace cleave

#endif // CLEAVE_PASSES_EMIT_OPERATORROWS_H
