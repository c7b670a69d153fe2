// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which factor of an operator an axis cuts that stands for the batch, positions or experts.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_AXISFACTORS_H
#define CLEAVE_PASSES_PLANNER_SEARCH_AXISFACTORS_H

#include "passes/planner/search/SearchGraph.h"

namespace cleave::search {

/// Whether a dimension of a tensor with these factors has this one.
bool mentions(const TensorFactors &tensor, unsigned factor);

/// Which operands of an operator have a factor: weights, others.
struct FactorOwners {
  bool weights = false, data = false;
};
FactorOwners ownersOf(const Operator &op, unsigned factor);

/// Finds Operator::batch, sequence and experts of all operators, and of the graph and its tensors what follows:
/// SearchGraph::batch, singleSample, hasExperts, Tensor::batched. The graph's nodes, tensors and operators are there.
void findAxisFactors(dfg::GraphOp graph, SearchGraph &result);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_AXISFACTORS_H
