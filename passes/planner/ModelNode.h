// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nodes of the model behind a graph's operators: what people place by name.

#ifndef CLEAVE_PASSES_PLANNER_MODELNODE_H
#define CLEAVE_PASSES_PLANNER_MODELNODE_H

#include "dialects/dfg/Dfg.h"

#include <vector>

namespace cleave {

/// A node of the model and the operators that it became. An operator without a name is a node of its own.
struct ModelNode {
  /// Empty where the operator carries no name.
  llvm::StringRef name;
  /// The model's own group (`ctx_group`); empty where it has none.
  llvm::StringRef group;
  llvm::SmallVector<mlir::Operation *, 2> operators;
  /// Nodes whose results this one reads, in the order of its operands, and nodes that read its results, in the graph's
  /// order: indices into the list of nodes.
  llvm::SmallVector<unsigned, 4> producers, consumers;
};

/// What people call the node; the operator's kind where it has no name.
llvm::StringRef nodeName(const ModelNode &node);

/// Whether an operator has no place of its own: reads of parameters and constants, of which every user gets a copy.
bool followsItsUsers(mlir::Operation *op);

/// The nodes of a graph in the order of their first operators.
std::vector<ModelNode> collectModelNodes(dfg::GraphOp graph);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_MODELNODE_H
