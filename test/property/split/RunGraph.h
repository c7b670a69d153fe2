// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module with a placed graph to the values of its outputs.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_RUNGRAPH_H
#define CLEAVE_TEST_PROPERTY_SPLIT_RUNGRAPH_H

#include "passes/distribute/Pipeline.h"
#include "test/property/Tensor.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace cleave::test {

/// The values that the graph's inputs say they have.
std::vector<Tensor> makeInputs(mlir::ModuleOp module);

/// The plan of a module, which is not what it was afterwards. The error begins with the stage that failed.
llvm::Expected<std::vector<char>> compileGraph(mlir::ModuleOp module, bool optimized,
                                               const DistributeOptions &distribute = {});

/// Compiles the module, which is not what it was afterwards, and runs it: two steps in flight, which must give the same
/// bits. The error begins with the stage that failed.
llvm::Expected<std::vector<Tensor>> runGraph(mlir::ModuleOp module, const std::vector<Tensor> &inputs, bool optimized);

/// The same, once for each set of inputs.
llvm::Expected<std::vector<std::vector<Tensor>>>
runGraphOften(mlir::ModuleOp module, const std::vector<std::vector<Tensor>> &inputs, bool optimized);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_RUNGRAPH_H
