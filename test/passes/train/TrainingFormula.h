// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the tests of training share: graphs that are built by code and run as machine code, and PyTorch as the peer.

#ifndef CLEAVE_TEST_PASSES_TRAIN_TRAININGFORMULA_H
#define CLEAVE_TEST_PASSES_TRAIN_TRAININGFORMULA_H

#include "test/property/KernelCases.h"

#include "dialects/dfg/Dfg.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
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

/// The module of a text, which has one graph; null, and a failed test, where it does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parseGraph(mlir::MLIRContext &context, const std::string &text);
dfg::GraphOp graphOf(mlir::ModuleOp module);

/// Makes an input of every read of a parameter and an output of every write, both in the graph's order, behind those
/// that there are.
void exposeState(dfg::GraphOp graph);

/// The machine code of a module's only graph.
std::unique_ptr<LoadedKernels> loadGraph(mlir::ModuleOp module);

/// Puts every operator on a random mesh of up to four devices, or all on one, in random splits.
void placeInRandomSplits(mlir::ModuleOp module, uint64_t seed, bool onOneMesh);
/// Says which numbers checkCase gives an input: between two bounds.
void fillInput(dfg::GraphOp graph, unsigned input, double low, double high);

/// Runs the machine code of a module's only graph.
std::vector<Tensor> runGraphOf(mlir::ModuleOp module, const std::vector<Tensor> &inputs);

/// A tensor of a graph's input or result, all zero.
Tensor tensorOf(mlir::Type type);
Tensor scalarOf(const std::string &element, double value);
std::vector<double> numbersOf(const Tensor &tensor);
llvm::json::Array toJson(const Tensor &tensor);
/// The numbers are those of the list, as far as `tolerance`.
void expectNumbers(const Tensor &got, const llvm::json::Array &want, double tolerance);
/// A number for each element, between bounds.
Tensor randomTensor(const std::string &element, const Shape &shape, double low, double high, uint64_t seed = 3);

/// What torch_steps.py answers, by request; none where there is no PyTorch.
std::optional<llvm::json::Array> askTorch(llvm::json::Array requests);

} // namespace cleave::test

#endif // CLEAVE_TEST_PASSES_TRAIN_TRAININGFORMULA_H
