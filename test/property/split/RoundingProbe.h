// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far rounding may move the outputs of a graph of narrow floats.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_ROUNDINGPROBE_H
#define CLEAVE_TEST_PROPERTY_SPLIT_ROUNDINGPROBE_H

#include "test/property/Tensor.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave::test {

/// The attribute of an operator whose result has the same bits however the graph is divided.
inline constexpr llvm::StringRef exactAttrName = "test.exact";

/// A module that holds a graph, and how its inputs move in each of several runs. The first run moves nothing.
struct RoundingProbe {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::vector<Tensor>> runs;
};

/// The graph with more inputs, which multiply each value of f16 or bf16 that is rounded, and need not be rounded alike
/// in two divisions of the graph, by 1 plus or minus the unit in its last place. Where the operator is divided along a
/// sum, the operands in which it is linear move as well: partial sums are rounded, too, and may be larger than the sum.
RoundingProbe probeRounding(mlir::ModuleOp module, const std::vector<Tensor> &inputs);

/// The largest move of each element of an output, found in the outputs of all runs.
std::vector<double> largestMoves(const std::vector<std::vector<Tensor>> &runs, size_t output);

/// Whether anything in the graph is a float narrower than f32.
bool hasNarrowFloats(mlir::ModuleOp module);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_ROUNDINGPROBE_H
