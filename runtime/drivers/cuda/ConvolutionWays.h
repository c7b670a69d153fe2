// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ways to compute a convolution, in families of one library's interface each: what such a family offers, and what
// all of them know of the kernel. The kernel takes the fastest way of all families.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CONVOLUTIONWAYS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CONVOLUTIONWAYS_H

#include "runtime/drivers/cuda/CudaEpilogue.h"
#include "runtime/drivers/cuda/CudnnApi.h"
#include "runtime/drivers/cuda/rules/CudnnProblem.h"

namespace cleave::runtime {

/// A convolution's kernel as all of its ways see it. Lasts longer than they do.
struct ConvolutionTask {
  using Direction = CudnnConvolution::Direction;

  const CudaRuntime &cuda;
  LibraryKernelDesc desc;
  CudnnConvolution problem;
  /// What follows the convolution; that but for the addition, where the convolution has added already.
  CudaEpilogueDesc epilogueDesc;
  CudaEpilogue epilogue, epilogueAfterAddition;

  /// Loads the epilogues for the current GPU.
  Error loadEpilogues();

  /// The tensors of the forward convolution among the kernel's arguments.
  void *dataOf(void *const *arguments) const { return arguments[problem.direction == Direction::BackwardData ? 2 : 0]; }
  void *weightsOf(void *const *arguments) const {
    return arguments[problem.direction == Direction::BackwardWeights ? 2 : 1];
  }
  void *resultOf(void *const *arguments) const {
    return arguments[problem.direction == Direction::Forward        ? desc.inputs.size()
                     : problem.direction == Direction::BackwardData ? 0
                                                                    : 1];
  }
  void *workspaceOf(void *const *arguments) const {
    return desc.scratchBytes == 0 ? nullptr : arguments[desc.inputs.size() + 1];
  }
  /// Whether what is added lies where the result goes.
  bool isInPlace(void *const *arguments) const {
    return problem.added >= 0 && arguments[problem.added] == resultOf(arguments);
  }
  /// Whether products may be rounded, or are exact in any arithmetic of the libraries: TF32 and bfloat16.
  bool leavesMath() const { return problem.element == ElementType::BF16 || problem.tf32; }
};

/// Some ways to compute a task, of which one is taken. For the current device; arguments are the kernel's.
class ConvolutionWays {
public:
  /// Which ways are looked for: those that give the same bits every time, or the others.
  enum class Order { Repeatable, Varying };

  virtual ~ConvolutionWays() = default;
  /// Measures the ways there are with these arguments, and takes the fastest. Its milliseconds; an error where no way
  /// works. May overwrite outputs and scratch; the stream is idle, and is again afterwards.
  virtual Expected<float> measure(void *const *arguments, cudaStream_t stream, Order order) = 0;
  /// The way that was taken, on one line.
  virtual std::string text() const = 0;
  /// Takes the way that an earlier text() of this family names and runs it once, which loads its code; an error where
  /// it is none of this family's, or does not work here.
  virtual Error take(const std::string &text, void *const *arguments, cudaStream_t stream) = 0;
  /// Whether the way that was taken can be run with these arguments: those with which it was taken do or do not have
  /// what is added where the result goes, and others may be otherwise.
  virtual bool fits(void *const *arguments) const {
    (void)arguments;
    return true;
  }
  /// Puts the way that was taken on the stream, with the epilogue; can be captured.
  virtual Error enqueue(void *const *arguments, cudaStream_t stream) = 0;

protected:
  /// Runs the way that was taken to its end.
  Error runOnce(const CudaRuntime &cuda, void *const *arguments, cudaStream_t stream);
};

// CudnnRoutines.cpp: cuDNN's routines with a descriptor each, whose algorithms cuDNN measures by itself. The way that
// is taken at first has no workspace and the same order every time.
Expected<std::unique_ptr<ConvolutionWays>> loadCudnnRoutines(const ConvolutionTask &task, const Cudnn &library);
// ConvolutionProducts.cpp: products by cuBLASLt. Null where the convolution is none.
std::unique_ptr<ConvolutionWays> loadConvolutionProducts(const ConvolutionTask &task);
// CudnnEngines.cpp: engines of cuDNN's backend. Null where the library has none.
std::unique_ptr<ConvolutionWays> loadCudnnEngines(const ConvolutionTask &task, const Cudnn &library);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CONVOLUTIONWAYS_H
