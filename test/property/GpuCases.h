// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles graphs of dfg operators for GPUs and runs their PTX in the interpreter.

#ifndef CLEAVE_TEST_PROPERTY_GPUCASES_H
#define CLEAVE_TEST_PROPERTY_GPUCASES_H

#include "test/property/KernelCases.h"
#include "test/ptx/PtxInterpreter.h"

#include "passes/codegen/GpuKernels.h"

#include <optional>

namespace cleave::test {

/// PTX of some graphs.
class GpuKernels {
public:
  /// As of GpuKernelSource, for all kernels.
  using Overwrites = std::vector<std::pair<unsigned, unsigned>>;

  /// Parses `text`, a module of dfg.graph operations, and compiles them in order. Fails the test and stays empty where
  /// that goes wrong, or where the interpreter does not take the PTX.
  GpuKernels(const std::string &text, const GpuOptions &options, const Overwrites &overwrites = {});

  /// The same of what is compiled already.
  explicit GpuKernels(GpuObject compiled);

  explicit operator bool() const { return module.has_value(); }
  const GpuObject &getObject() const { return object; }

  /// Runs a kernel on the inputs. Outputs start full of ones in every bit, so that elements that nobody writes show.
  /// Fails the test where a launch accesses other memory, races, or reads shared memory that nobody wrote.
  std::vector<Tensor> run(unsigned kernel, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs) const;
  /// The same on arguments that lie in memory already.
  void run(unsigned kernel, const std::vector<char *> &arguments, const ptx::Memory &memory) const;

private:
  GpuObject object;
  std::optional<ptx::Module> module;
};

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_GPUCASES_H
