// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a library kernel for GPUs the way a plan does, on the simulated libraries: asked for by the compiler's rules,
// loaded from the plan's structures, its algorithm chosen, and run. Streams are lists of work that runs when somebody
// waits, and time is what the libraries say that their kernels take.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_CUDALIBRARYHARNESS_H
#define CLEAVE_TEST_RUNTIME_CUDA_CUDALIBRARYHARNESS_H

#include "runtime/drivers/cuda/CudaLibraryKernel.h"
#include "runtime/drivers/cuda/rules/CudaLibraries.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace cleave::runtime::test {

using Shape = std::vector<int64_t>;

/// A tensor in row-major order, whose values are those of its element type.
struct Values {
  Shape shape;
  std::vector<double> values;

  double &at(const Shape &index);
  double at(const Shape &index) const { return const_cast<Values *>(this)->at(index); }
};

/// Calls `body(index)` for every index of the shape.
void forEach(const Shape &shape, const std::function<void(const Shape &)> &body);
/// `value(index)` everywhere.
Values tabulate(const Shape &shape, const std::function<double(const Shape &)> &value);
/// Values from -1 to 1 as the element type has them.
Values randomValues(std::mt19937 &random, const Shape &shape, ElementType element = ElementType::F32);

/// A kernel on buffers of its own.
class LibraryRun {
public:
  /// Asks the rules, loads the kernel and fills its inputs; throws std::runtime_error with the message of a failure.
  /// `inPlace`: the input that is the output's buffer, or -1. `scratchBytes` replaces what the rules say.
  LibraryRun(LibraryKernelDesc desc, std::vector<Values> inputs, int inPlace = -1,
             std::optional<uint64_t> scratchBytes = std::nullopt);

  /// Has the process's cache of algorithms hold `text` as cuDNN's choice for this kernel.
  void keep(const std::string &text) const;
  /// The choice that the cache holds.
  std::optional<std::string> kept() const;
  /// Chooses the algorithm; the inputs are fresh afterwards.
  void choose();
  /// Runs it once and gives its output, or all of them.
  Values run() { return runAll().front(); }
  std::vector<Values> runAll();
  /// Milliseconds of one run.
  double time();
  CudaLibraryKernel &kernel() { return *loaded; }
  std::vector<void *> arguments();

private:
  struct Buffer {
    TensorType type;
    std::vector<std::byte> bytes;
    void *address();
  };
  Buffer makeBuffer(const TensorType &type, uint64_t bytes) const;
  std::string key() const;
  void fill();
  void checkGuards() const;

  LibraryKernelDesc desc;
  std::vector<Values> values;
  int inPlace;
  std::vector<Buffer> buffers;
  std::unique_ptr<CudaLibraryKernel> loaded;
};

/// choose() and run().
Values runLibraryKernel(const LibraryKernelDesc &desc, const std::vector<Values> &inputs, int inPlace = -1);

/// The functions of the CUDA runtime that library kernels call, and what runs all that is on its stream.
const CudaRuntime &simulatedRuntime();
void finishSimulated();

/// Milliseconds since the simulated GPU began, and how much work it has done.
double simulatedTime();
int simulatedKernels();

/// |actual - expected| <= relative * (|expected| + 1).
void expectNear(const Values &actual, const Values &expected, double relative);

/// A float32 description; `ints` are its attributes.
LibraryKernelDesc describe(std::string operation, const std::vector<Values> &inputs, Shape output,
                           ElementType element = ElementType::F32);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_CUDA_CUDALIBRARYHARNESS_H
