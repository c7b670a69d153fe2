// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the tests of training share: graphs that are built by code and run as machine code, and PyTorch as the peer.

#ifndef CLEAVE_TEST_PASSES_TRAIN_TRAININGFORMULA_H
#define CLEAVE_TEST_PASSES_TRAIN_TRAININGFORMULA_H

#include "test/property/KernelCases.h"

#include "dialects/dfg/Dfg.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/JSON.h"

#include <functional>

namespace cleave::test {

/// A graph of one kernel, compiled.
class TrainingFormula {
public:
  using Build = std::function<llvm::SmallVector<mlir::Value>(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;

  /// `inputs` are only asked for their types.
  TrainingFormula(const std::vector<Tensor> &inputs, const Build &build);

  /// The graph's results on these inputs.
  std::vector<Tensor> run(const std::vector<Tensor> &inputs) const { return kernels->run(0, inputs, outputs); }

private:
  std::vector<Tensor> outputs;
  std::unique_ptr<LoadedKernels> kernels;
};

/// A context with the dialects of placed graphs.
std::unique_ptr<mlir::MLIRContext> createTestContext();

/// The machine code of a module's only graph.
std::unique_ptr<LoadedKernels> loadGraph(mlir::ModuleOp module);

/// A tensor of a graph's input or result, all zero.
Tensor tensorOf(mlir::Type type);
Tensor scalarOf(const std::string &element, double value);
std::vector<double> numbersOf(const Tensor &tensor);

/// What torch_steps.py answers, by request; none where there is no PyTorch.
std::optional<llvm::json::Array> askTorch(llvm::json::Array requests);

} // namespace cleave::test

#endif // CLEAVE_TEST_PASSES_TRAIN_TRAININGFORMULA_H
