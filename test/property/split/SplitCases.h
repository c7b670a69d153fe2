// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cases of the split test: modules whose placed graph must compute the same as on one device.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_SPLITCASES_H
#define CLEAVE_TEST_PROPERTY_SPLIT_SPLITCASES_H

#include "test/property/split/OperatorTemplates.h"

namespace cleave::test {

/// A placed graph, and how many cases it holds.
struct SplitCase {
  std::string name;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  unsigned count = 1;
};

/// One instance of an operator in up to `most` splits, one output each, on meshes of all shapes. Where there are more
/// they are chosen at random. Its operands come from operators in other layouts, on other meshes, or from outside, and
/// its result goes to one in another layout.
SplitCase makeOperatorCase(mlir::MLIRContext &context, const OperatorTemplate &chosen, uint64_t seed, unsigned most);

/// One instance of an operator, with its gradients by all operands of floats (DifferentiateInterface), in up to `most`
/// splits: the gradients' operators are divided as the train stage does it. The operator's operands and the cotangent
/// of its result come from operators in other layouts. Outputs are results and gradients. A variant without a gradient
/// has results alone.
SplitCase makeSplitGradientCase(mlir::MLIRContext &context, const OperatorTemplate &chosen, uint64_t seed,
                                unsigned most);

/// A graph of 3 to 30 operators, each in a random split on a random mesh.
/// Attention whose queries and keys are cut by positions, on all devices of a mesh, alone or with its
/// gradient.
SplitCase makeAttentionCase(mlir::MLIRContext &context, uint64_t seed, bool withGradient);

SplitCase makeGraphCase(mlir::MLIRContext &context, uint64_t seed);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_SPLITCASES_H
