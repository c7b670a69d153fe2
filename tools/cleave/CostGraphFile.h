// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cost graphs: operators with measured costs.
//
//   ops:
//     - { name: node2, kind: "Conv2d(3, 64)", inputs: [node1], forward: 22.3 ms, backward: 24.6 ms,
//         activation: 1644167168 B, parameters: 7168 B }

#ifndef CLEAVE_TOOLS_CLEAVE_COSTGRAPHFILE_H
#define CLEAVE_TOOLS_CLEAVE_COSTGRAPHFILE_H

#include "passes/planner/stages/CostGraph.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cleave::tool {

/// Reads a cost graph and brings it into topological order. Only `name` and `forward` must be there. What loads the
/// data (kind `Input`) takes no device's time. Errors name line and column: operators of one name, inputs that are
/// none, and operators that depend on each other in a circle among them.
llvm::Expected<stages::CostGraph> readCostGraph(llvm::StringRef path);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_COSTGRAPHFILE_H
