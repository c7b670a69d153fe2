// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic in bfloat16 around parameters, sums and losses in f32.
//
// bfloat16 has the range of f32 and 8 bits of precision. Three things follow. Products on it are fast, and values half
// as large, while a rounding to nearest is wrong by at most 2^-9 of a value and so hardly matters to an activation. A
// sum of n terms must not be rounded at every term, so sums are f32. And a parameter must not be kept in it: an update
// below 2^-9 of the parameter, as most are, would be lost in every step; so parameters and what the optimizer keeps are
// f32 (master weights), and each use of a parameter rounds it.
//
//   %w = dfg.read @w : tensor<4x4xf32>                     the master
//   %1 = dfg.cast %w {to = bf16}                           one a use: where the parameter's gradient becomes f32 again
//   %2 = dfg.cast %x {to = bf16}
//   %3 = dfg.dot_general %2, %1 …                          in bf16, summed in f32, rounded
//   %4 = dfg.relu %3 …                                     follows in bf16
//   %5 = dfg.cast %4 {to = f32}
//   %6 = dfg.reduce %5 {kind = sum} …                      sums are f32
//
// Which operators gain, follow, or stay f32 they say themselves (PrecisionInterface). Both rewrites take graphs whose
// operators are placed, and those that are not. A conversion of a placed operator's operand stands on its mesh, cut as
// the operand is, so that what is converted is not communicated for it; one of a result stands where the result is
// made, so that bfloat16 is sent.

#ifndef CLEAVE_PASSES_TRAIN_MIXEDPRECISION_H
#define CLEAVE_PASSES_TRAIN_MIXEDPRECISION_H

#include "dialects/dfg/Dfg.h"

namespace cleave {

/// Rewrites what the graph computes from its inputs in f32: operators that gain from bfloat16 read and give it, those
/// that follow do where all that they read of the inputs is bfloat16 already, all others stay. What is computed from
/// parameters alone stays, too. The graph's inputs and outputs, parameters and other element types are as before.
/// Fails, with a diagnostic, where a place does not fit its operator.
mlir::LogicalResult narrowArithmetic(dfg::GraphOp graph);

/// Lets sums that are rounded to bfloat16, and at once made f32 again, be f32: those of products where the operator has
/// a way to give them (PrecisionInterface::buildWide), those of other operators by reading f32. Gradients of parameters
/// reach the optimizer so, and are joined so by devices and over microbatches.
mlir::LogicalResult widenSums(dfg::GraphOp graph);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_MIXEDPRECISION_H
