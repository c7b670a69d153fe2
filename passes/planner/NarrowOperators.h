// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which operators of a graph compute in bfloat16 with --dtype bf16: what the rewrite does
// (passes/train/MixedPrecision.h), and what the planner must know before it.

#ifndef CLEAVE_PASSES_PLANNER_NARROWOPERATORS_H
#define CLEAVE_PASSES_PLANNER_NARROWOPERATORS_H

#include "dialects/dfg/Dfg.h"

#include "llvm/ADT/DenseSet.h"

namespace cleave {

/// Operators that gain from bfloat16 compute in it; those that follow do where all that they read of the graph's inputs
/// is bfloat16 already. What is computed from parameters alone stays f32.
class NarrowOperators {
public:
  explicit NarrowOperators(dfg::GraphOp graph);

  bool contains(mlir::Operation *op) const { return operators.contains(op); }
  /// Whether an operator reads an f32 operand rounded to bfloat16.
  bool rounds(mlir::OpOperand &operand) const;

private:
  bool isToBeNarrow(mlir::Operation *op) const;
  static bool isWide(mlir::Value value);

  llvm::DenseSet<mlir::Operation *> operators;
  /// What depends on the graph's inputs.
  llvm::DenseSet<mlir::Value> fromInputs;
};

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_NARROWOPERATORS_H
