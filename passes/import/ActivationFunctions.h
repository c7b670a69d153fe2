// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The activation functions that recurrent and fused operators name in their attributes.

#ifndef CLEAVE_PASSES_IMPORT_ACTIVATIONFUNCTIONS_H
#define CLEAVE_PASSES_IMPORT_ACTIVATIONFUNCTIONS_H

#include "passes/import/NodeImporter.h"

namespace cleave {

/// One activation function: what it is called in ONNX, its parameters' defaults where it has them, and how it is built.
struct ActivationFunction {
  llvm::StringRef name;
  std::optional<double> alpha, beta;
  mlir::Value (*build)(NodeImporter &node, mlir::Value value, double alpha, double beta);
};

/// `value` after the function that the attribute "activation" names, and `value` itself where there is none.
/// `parameters` are alpha and beta, as far as they are given; for Clip, the bounds. Unknown functions are not
/// supported.
llvm::FailureOr<mlir::Value> applyActivation(NodeImporter &node, mlir::Value value, llvm::ArrayRef<float> parameters);

/// The function of this name, upper and lower case being the same; null where there is none.
const ActivationFunction *findActivationFunction(llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_ACTIVATIONFUNCTIONS_H
