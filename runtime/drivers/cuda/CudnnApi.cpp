// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where cuDNN is, what its status codes mean, and its handles and tensor descriptors.

#include "runtime/drivers/cuda/CudnnApi.h"

#include <array>
#include <map>
#include <mutex>
#include <tuple>

namespace cleave::runtime {

CudaLibraryFile Cudnn::file() {
  static constexpr std::array<const char *, 1> files = {"libcudnn.so.9"};
  return {"cuDNN", files, "install cuDNN 9 beside the CUDA toolkit, or set CUDA_PATH to where it is"};
}

Error checkCudnn(const Cudnn &library, cudnnStatus_t code, const char *routine) {
  if (code == CUDNN_STATUS_SUCCESS)
    return Error::success();
  bool isUnsupported = CUDNN_STATUS_CATEGORY(static_cast<int>(code)) == CUDNN_STATUS_NOT_SUPPORTED;
  Status status = isUnsupported ? Status::Unsupported : Status::Failure;
  bool lacksParts =
      code == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED || code == CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE;
  return makeError(status, routine, ": ", library.cudnnGetErrorString(code), " (status ", static_cast<int>(code), ")",
                   lacksParts ? "; add the folder of cuDNN's and CUDA's libraries to LD_LIBRARY_PATH" : "");
}

Expected<cudnnHandle_t> cudnnHandleOf(const CudaRuntime &cuda, const Cudnn &library, cudaStream_t stream) {
  static std::mutex mutex;
  static auto &handles = *new std::map<std::tuple<const Cudnn *, int, cudaStream_t>, cudnnHandle_t>;
  int device = 0;
  if (Error error = checkCuda(cuda, cuda.cudaGetDevice(&device), "cudaGetDevice"))
    return error;
  std::lock_guard lock(mutex);
  // A handle is one for the device that was current when it was made.
  cudnnHandle_t &handle = handles[{&library, device, stream}];
  if (!handle)
    if (Error error = checkCudnn(library, library.cudnnCreate(&handle), "cudnnCreate"))
      return error;
  // A stream that was destroyed may have left its address to another one.
  if (Error error = checkCudnn(library, library.cudnnSetStream(handle, stream), "cudnnSetStream"))
    return error;
  return handle;
}

cudnnDataType_t cudnnType(ElementType element) {
  return element == ElementType::BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

Error makeCudnnTensor(const Cudnn &library, CudnnTensor &tensor, ElementType element, const std::vector<int> &dims) {
  std::vector<int> strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d-- != 0;)
    strides[d] = strides[d + 1] * dims[d + 1];
  if (Error error =
          checkCudnn(library, tensor.make(library.cudnnCreateTensorDescriptor, library.cudnnDestroyTensorDescriptor),
                     "cudnnCreateTensorDescriptor"))
    return error;
  return checkCudnn(library,
                    library.cudnnSetTensorNdDescriptor(tensor, cudnnType(element), static_cast<int>(dims.size()),
                                                       dims.data(), strides.data()),
                    "cudnnSetTensorNdDescriptor");
}

} // namespace cleave::runtime
