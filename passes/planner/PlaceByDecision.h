// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decision that was made before, about the same model: the search has nothing left to choose, and says what it costs,
// perhaps on another machine.

#ifndef CLEAVE_PASSES_PLANNER_PLACEBYDECISION_H
#define CLEAVE_PASSES_PLANNER_PLACEBYDECISION_H

#include "passes/planner/search/Search.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// What a plan says about a model.
struct Decision {
  struct Stage {
    MeshSpec mesh; ///< With what its stage keeps.
  };
  struct Node {
    unsigned stage = 0;
    /// Of each of its operators, as plans have it: "batch/data 2, out_channel/model 4", or "".
    std::vector<std::string> splits;
    /// Of a softmax of attention: whether its keys go around in a ring.
    bool isRing = false;
  };
  std::vector<Stage> stages;
  bool optimizerInHost = false;
  llvm::StringMap<Node> nodes; ///< by name
};

/// Reads the graph, and lets `request` ask for nothing but the decision: devices, splits, and what stages keep.
/// Microbatches and schedule are the caller's. The error says where the graph is not the decision's.
llvm::Expected<search::SearchGraph> readDecided(dfg::GraphOp graph, const Decision &decision,
                                                search::SearchRequest &request);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEBYDECISION_H
