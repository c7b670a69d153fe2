// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A random instance of an operator with its gradients, as one graph.

#ifndef CLEAVE_TEST_PROPERTY_GRADIENT_GRADIENTCASE_H
#define CLEAVE_TEST_PROPERTY_GRADIENT_GRADIENTCASE_H

#include "test/property/Tensor.h"
#include "test/property/split/OperatorTemplates.h"

namespace cleave::test {

/// The graph has the operator's inputs, then the cotangent of its result; its outputs are the result, then gradients.
struct GradientCase {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The gradient of an input: the output that holds it, or none where it is zero everywhere.
  struct Gradient {
    unsigned input;
    std::optional<unsigned> output;
  };
  /// One an input of floats; none where the result is of another type than they are.
  std::vector<Gradient> gradients;
  /// What is wrong with the gradients' operators themselves; else empty.
  std::string problem;
};

/// The instance of this seed, on values of type `element`.
GradientCase makeGradientCase(mlir::MLIRContext &context, const OperatorTemplate &chosen, mlir::Type element,
                              uint64_t seed);

/// Random values for all inputs; `whole`: rounded to whole numbers, among which zeros and equal ones are frequent.
std::vector<Tensor> drawInputs(mlir::ModuleOp module, uint64_t seed, bool whole);

/// Tensors of the types of the graph's outputs.
std::vector<Tensor> makeOutputs(mlir::ModuleOp module);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_GRADIENT_GRADIENTCASE_H
