// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of cuDNN that the driver calls, loaded at the first use, and cuDNN's objects as C++ ones.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNAPI_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNAPI_H

#include "runtime/ElementType.h"
#include "runtime/drivers/cuda/CudaApi.h"

#include <cudnn.h>

#include <utility>

namespace cleave::runtime {

// clang-format off
#define CLEAVE_CUDNN_FUNCTIONS(X)                                                                                      \
  X(cudnnConvolutionBackwardData)                                                                                      \
  X(cudnnConvolutionBackwardFilter)                                                                                    \
  X(cudnnConvolutionBiasActivationForward)                                                                             \
  X(cudnnConvolutionForward)                                                                                           \
  X(cudnnCreate)                                                                                                       \
  X(cudnnCreateActivationDescriptor)                                                                                   \
  X(cudnnCreateConvolutionDescriptor)                                                                                  \
  X(cudnnCreateFilterDescriptor)                                                                                       \
  X(cudnnCreatePoolingDescriptor)                                                                                      \
  X(cudnnCreateTensorDescriptor)                                                                                       \
  X(cudnnDestroyActivationDescriptor)                                                                                  \
  X(cudnnDestroyConvolutionDescriptor)                                                                                 \
  X(cudnnDestroyFilterDescriptor)                                                                                      \
  X(cudnnDestroyPoolingDescriptor)                                                                                     \
  X(cudnnDestroyTensorDescriptor)                                                                                      \
  X(cudnnFindConvolutionBackwardDataAlgorithmEx)                                                                       \
  X(cudnnFindConvolutionBackwardFilterAlgorithmEx)                                                                     \
  X(cudnnFindConvolutionForwardAlgorithmEx)                                                                            \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                                      \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                                                    \
  X(cudnnGetConvolutionForwardWorkspaceSize)                                                                           \
  X(cudnnGetErrorString)                                                                                               \
  X(cudnnGetVersion)                                                                                                   \
  X(cudnnPoolingForward)                                                                                               \
  X(cudnnSetActivationDescriptor)                                                                                      \
  X(cudnnSetConvolutionGroupCount)                                                                                     \
  X(cudnnSetConvolutionMathType)                                                                                       \
  X(cudnnSetConvolutionNdDescriptor)                                                                                   \
  X(cudnnSetFilterNdDescriptor)                                                                                        \
  X(cudnnSetPoolingNdDescriptor)                                                                                       \
  X(cudnnSetStream)                                                                                                    \
  X(cudnnSetTensorNdDescriptor)

// The interface to graphs of operations and the engines that compute them.
#define CLEAVE_CUDNN_BACKEND_FUNCTIONS(X)                                                                              \
  X(cudnnBackendCreateDescriptor)                                                                                      \
  X(cudnnBackendDestroyDescriptor)                                                                                     \
  X(cudnnBackendExecute)                                                                                               \
  X(cudnnBackendFinalize)                                                                                              \
  X(cudnnBackendGetAttribute)                                                                                          \
  X(cudnnBackendSetAttribute)
// clang-format on

/// cuDNN.
CLEAVE_FUNCTIONS_AND_OPTIONAL(Cudnn, CLEAVE_CUDNN_FUNCTIONS, CLEAVE_CUDNN_BACKEND_FUNCTIONS)

/// Success, or a failure that names the routine and cuDNN's text for `code`.
Error checkCudnn(const Cudnn &library, cudnnStatus_t code, const char *routine);

/// The handle of a stream, which the current device owns: made once, and never given back, because what ends first, the
/// stream's device or the library, is not ours to say. Work through a handle is on one stream alone, so that what cuDNN
/// keeps in it is not shared. Thread-safe.
Expected<cudnnHandle_t> cudnnHandleOf(const CudaRuntime &cuda, const Cudnn &library, cudaStream_t stream);

/// Owns a descriptor.
template <typename T> class CudnnDescriptor {
public:
  using Create = cudnnStatus_t (*)(T *);
  using Destroy = cudnnStatus_t (*)(T);
  CudnnDescriptor() = default;
  CudnnDescriptor(const CudnnDescriptor &) = delete;
  CudnnDescriptor &operator=(const CudnnDescriptor &) = delete;
  ~CudnnDescriptor() {
    if (made)
      destroy(made);
  }
  /// To be called once.
  cudnnStatus_t make(Create create, Destroy end) {
    destroy = end;
    return create(&made);
  }
  operator T() const { return made; }

private:
  T made = nullptr;
  Destroy destroy = nullptr;
};

using CudnnTensor = CudnnDescriptor<cudnnTensorDescriptor_t>;
using CudnnFilter = CudnnDescriptor<cudnnFilterDescriptor_t>;

/// The type of cuDNN for f32 and bf16, which are all that kernels have.
cudnnDataType_t cudnnType(ElementType element);
/// A dense row-major tensor.
Error makeCudnnTensor(const Cudnn &library, CudnnTensor &tensor, ElementType element, const std::vector<int> &dims);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNAPI_H
