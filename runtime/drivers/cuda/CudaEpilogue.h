// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of a library kernel's epilogue the library does not do: additions and an activation over its result, by a
// kernel of our own. Which epilogues a library has algorithms for depends on its version, the GPU and the shape, so
// that only the loading of a kernel shows it.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAEPILOGUE_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAEPILOGUE_H

#include "runtime/ElementType.h"
#include "runtime/drivers/cuda/CudaExecutable.h"

#include <string>

namespace cleave::runtime {

/// result = activation(result + bias + addedScale * added), for a dense result in place; float32 arithmetic. Inputs
/// are arguments of the library kernel by number, -1 for none.
struct CudaEpilogueDesc {
  enum class Activation {
    None,
    Relu,        ///< NaN stays NaN
    Gelu,        ///< its tanh form
    GeluGradient ///< the value times the derivative of Gelu at `saved`
  };

  ElementType element = ElementType::F32; ///< F32 or BF16, of everything
  uint64_t elements = 0;
  int bias = -1;
  /// Element i gets value (i / inner) % channels of the bias.
  uint64_t channels = 1, inner = 1;
  int added = -1;
  float addedScale = 1;
  Activation activation = Activation::None;
  int saved = -1;

  bool isEmpty() const { return bias < 0 && added < 0 && activation == Activation::None; }
  /// "bias, relu".
  std::string text() const;
};

class CudaEpilogue {
public:
  /// Does nothing.
  CudaEpilogue() = default;
  /// For the current GPU; all of a process share the code.
  static Expected<CudaEpilogue> load(const CudaRuntime &cuda, const CudaEpilogueDesc &desc);

  /// Puts it on the stream; can be captured. `result` is the library kernel's, of whose arguments it reads its own.
  Error enqueue(void *result, void *const *arguments, cudaStream_t stream) const;

private:
  const CudaRuntime *cuda = nullptr;
  std::shared_ptr<const CudaModule> code;
  cudaKernel_t kernel = nullptr;
  CudaEpilogueDesc desc;
};

/// Says on standard error, once in a process for each library and epilogue, that `library` lacks what `desc` does, and
/// with which kernel that was noticed.
void noteEpilogue(const std::string &library, const CudaEpilogueDesc &desc, const std::string &kernel);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAEPILOGUE_H
