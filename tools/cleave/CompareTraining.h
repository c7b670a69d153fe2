// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs steps of two plans that train the same model, side by side, and compares what they give and what they change.

#ifndef CLEAVE_TOOLS_CLEAVE_COMPARETRAINING_H
#define CLEAVE_TOOLS_CLEAVE_COMPARETRAINING_H

#include "runtime/Comparison.h"
#include "runtime/ParameterSource.h"
#include "tools/cleave/Diagnostics.h"

namespace cleave::tool {

/// A plan that can run.
struct RunnablePlan {
  const runtime::Plan &plan;
  runtime::ParameterSource &parameters;
};

/// An element may be off by rtol of what is expected, by atol of what is large among its like, and by `share` of what
/// the arithmetic of a third plan changes, where there is one.
struct Tolerance {
  double rtol, atol, share = 0;
};

/// How far a tensor is from the expected one: an output, or what a step changes of a parameter.
struct TensorDifference {
  std::string entry; ///< empty where the plan has one
  std::string name;
  bool isChange = false;
  runtime::Comparison comparison;

  /// `output "loss" of entry "train"`, `change of "conv1.weight" by entry "train"`.
  std::string subject() const;
};

/// The differences of all outputs of all entries, and of what each entry that trains changes of each parameter and of
/// each tensor of the optimizer's state, in order.
///
/// Two rounds of all entries run from the parameters' own first values, and their outputs are compared. Then two run
/// with other inputs on optimizer state that is no longer zero, and changes are compared, too: a step that divides by
/// the root of squares of gradients (Adam) says nothing where these are zero but for rounding. Each tensor of the state
/// is filled with random numbers, another one for each element, up to the largest that the first rounds left in it, or
/// to 1 % of the largest of its kind ("adam_m"; of means of squares 0.01 %) where that is more. The expected plan does
/// each step from where the actual one was before it.
///
/// A change may be off by rtol of itself, by atol of the largest change in its tensor, or in the median tensor of its
/// kind where that is larger (there are parameters whose gradient is zero but for rounding), and by two units in the
/// last place of the tensor's largest element. Outputs: by rtol and atol of the largest element, or of 1. Integers are
/// equal.
///
/// `beside` is the expected plan in other arithmetic, or null: the tolerance's share of what that changes most, of any
/// tensor in relation to the tensor's scale, is added to atol; and the count of correct predictions may be off by what
/// that changes, and one.
Expected<std::vector<TensorDifference>> compareTraining(const RunnablePlan &actual, const RunnablePlan &expected,
                                                        const RunnablePlan *beside,
                                                        const std::vector<std::string> &inputBindings,
                                                        Tolerance tolerance);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_COMPARETRAINING_H
