// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which operators an executor computes in one kernel, what these kernels read and write forward and backward, and which
// tensors a step keeps between the two. All of it follows from classes of work, split rules and who reads what; no
// operator is known by name but dropout, whose mask no tensor of the graph is.
//
//   forward    a kernel reads what comes from others and writes what others read
//   backward   it reads the gradient of its result and what its derivative depends on, and writes gradients of what it
//              read; a sum passes its gradient on, so that it costs nothing; gradients of a tensor with several readers
//              are added up
//   kept       what derivatives depend on: operands of products, operands of what is not linear, results of reductions
//              whose operand nobody else reads

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_KERNELS_H
#define CLEAVE_PASSES_PLANNER_SEARCH_KERNELS_H

#include "passes/cost/Executor.h"

namespace cleave::search {

struct SearchGraph;

/// Sets Operator::use of all operators and Tensor::kept; nothing where the executor fuses into products, of which the
/// search counts operators one by one.
void chooseKernels(SearchGraph &graph, const Executor &executor);

/// Sets Operator::inner: by factor, whether it lies between a product split by columns and one split by rows.
void findInnerFactors(SearchGraph &graph);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_KERNELS_H
