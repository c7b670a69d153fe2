// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions and poolings as cuDNN computes them, read from the description of a plan's kernel. Names no type of
// cuDNN: the compiler reads it for its rules, the runtime to make descriptors.
//
// The rules. Data and weights of one element type, dense and row-major; two or three spatial dimensions, one being two
// with a leading 1; as much padding before as behind, or padding behind of which the windows leave as much unused,
// since cuDNN has one number for both.
//
// Convolutions: float32 or bfloat16, sums in float32. A forward convolution may have a bias, as an operand or as a
// `binary_add` of a value a channel, and behind it, as cuDNN's fused routine has them, a `binary_add` of the result's
// shape and a `relu`. Without a bias it has neither: kernels of our own are as fast as the separate routines of cuDNN.
//
// Poolings: float32, no dilations. Both averages are cuDNN's; the largest of a window is NaN where an element is.
// Gradients are refused: cuDNN's routine wants the pooling's data and result, which an average does not depend on and a
// plan has not kept.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDNNPROBLEM_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDNNPROBLEM_H

#include "runtime/LibraryKernelDesc.h"

#include <string_view>

namespace cleave::runtime {

/// How a window slides, for each of two or three spatial dimensions.
struct CudnnWindow {
  std::vector<int> pads, strides, dilations;
};

struct CudnnConvolution {
  /// What is computed of the three tensors of a convolution: the result of data and weights, the data's gradient (a
  /// deconvolution) of result and weights, or the weights' gradient of data and result.
  enum class Direction { Forward, BackwardData, BackwardWeights };

  Direction direction = Direction::Forward;
  ElementType element = ElementType::F32;
  /// data [N, C, spatial...], weights [O, C/G, kernel...], result [N, O, spatial...], of the forward convolution.
  std::vector<int> data, weights, result;
  CudnnWindow window;
  int groups = 1;
  /// The kernel's input with one value for each of the result's channels; -1: none.
  int bias = -1;
  /// The kernel's input that is added, of the result's shape; -1: none.
  int added = -1;
  bool relu = false;
  bool tf32 = false;

  /// Twice what the kernel reads and writes, in which data fits that is unfolded or transformed for faster algorithms,
  /// from 8 MiB to 1 GiB. An algorithm that needs more is not considered.
  uint64_t workspaceBytes() const;
};

struct CudnnPooling {
  enum class Kind { Max, AverageIncludingPadding, AverageExcludingPadding };

  Kind kind = Kind::Max;
  ElementType element = ElementType::F32;
  std::vector<int> data, result, kernel;
  CudnnWindow window;

  uint64_t workspaceBytes() const { return 0; }
};

/// The operation is "convolution", "deconvolution" or "convolution_weights".
bool isCudnnConvolution(std::string_view operation);

/// Status::Unsupported where the rules do not allow it, Status::Rejected where the description contradicts itself. The
/// types of the description are valid.
Expected<CudnnConvolution> readCudnnConvolution(const LibraryKernelDesc &desc);
Expected<CudnnPooling> readCudnnPooling(const LibraryKernelDesc &desc);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDNNPROBLEM_H
