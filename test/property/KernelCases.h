// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles graphs of dfg operators to machine code, both ways (optimized and reference), runs them, and compares with
// what a test computed by itself.

#ifndef CLEAVE_TEST_PROPERTY_KERNELCASES_H
#define CLEAVE_TEST_PROPERTY_KERNELCASES_H

#include "test/property/Tensor.h"

#include "dialects/dfg/Dfg.h"
#include "passes/codegen/NativeKernels.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>

namespace cleave::test {

/// One graph, its inputs and the outputs that it must have.
struct KernelCase {
  /// The operations between inputs %a, %b, ... and outputs %y0, %y1, ...
  std::string body;
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
  /// Accepted difference: relative to the expected value, plus absolute.
  double relative = 0, absolute = 0;
};

/// Machine code of some graphs, loaded into this process.
class LoadedKernels {
public:
  /// Parses `text`, a module of dfg.graph operations, and compiles them in order. Fails the test and stays empty where
  /// that goes wrong.
  LoadedKernels(const std::string &text, const NativeOptions &options);
  ~LoadedKernels();

  explicit operator bool() const { return library != nullptr; }
  const NativeObject &getObject() const { return object; }

  /// Runs a kernel on the inputs, its range divided into `parts` that run in a shuffled order. Outputs start full of
  /// ones in every bit, so that elements that nobody writes show. Fails the test where memory around outputs or
  /// scratch changes.
  std::vector<Tensor> run(unsigned kernel, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs,
                          unsigned parts = 3) const;

private:
  NativeObject object;
  void *library = nullptr;
};

/// Loads the dialects of graphs, kernels, and what kernels are lowered to.
void loadKernelDialects(mlir::MLIRContext &context);

/// A kernel that computes what the graph does, at the end of its module.
plan::NativeKernelOp kernelOf(dfg::GraphOp graph);

/// The text of a graph named `name` for a case.
std::string graphText(const std::string &name, const KernelCase &kernelCase);

/// Compiles all cases twice, optimized and as reference, and compares what both compute with what is expected: for this
/// processor (NativeCases.cpp), or, in the program that is linked with GpuCases.cpp, for GPUs, run by the interpreter.
void expectKernels(const std::vector<KernelCase> &cases);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_KERNELCASES_H
