// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Poolings by cuDNN, and the choice between its kernels.

#include "runtime/drivers/cuda/CudnnKernel.h"
#include "runtime/drivers/cuda/rules/CudnnAttention.h"
#include "runtime/drivers/cuda/rules/CudnnProblem.h"

namespace cleave::runtime {

Error inCudnnKernel(const LibraryKernelDesc &desc, const Error &error) {
  return error ? makeError(error.status(), "cudnn kernel ", desc.text(), ": ", error.message()) : error;
}

namespace {

cudnnPoolingMode_t modeOf(CudnnPooling::Kind kind) {
  switch (kind) {
  case CudnnPooling::Kind::Max:
    return CUDNN_POOLING_MAX;
  case CudnnPooling::Kind::AverageIncludingPadding:
    return CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
  case CudnnPooling::Kind::AverageExcludingPadding:
    break;
  }
  return CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

class PoolingKernel final : public CudaLibraryKernel {
public:
  PoolingKernel(const CudaRuntime &cuda, const Cudnn &library, const LibraryKernelDesc &desc)
      : cuda(cuda), library(library), desc(desc) {}

  Error load(const CudnnPooling &problem) {
    if (Error error = makeCudnnTensor(library, data, problem.element, problem.data))
      return error;
    if (Error error = makeCudnnTensor(library, result, problem.element, problem.result))
      return error;
    if (Error error = checkCudnn(
            library, pooling.make(library.cudnnCreatePoolingDescriptor, library.cudnnDestroyPoolingDescriptor),
            "cudnnCreatePoolingDescriptor"))
      return error;
    return checkCudnn(library,
                      library.cudnnSetPoolingNdDescriptor(
                          pooling, modeOf(problem.kind), CUDNN_PROPAGATE_NAN, static_cast<int>(problem.kernel.size()),
                          problem.kernel.data(), problem.window.pads.data(), problem.window.strides.data()),
                      "cudnnSetPoolingNdDescriptor");
  }

  /// There is nothing to choose, but code to load, which a graph cannot.
  Error choose(void *const *arguments, cudaStream_t stream) override {
    if (Error error = enqueue(arguments, stream))
      return error;
    return checkCuda(cuda, cuda.cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  Error enqueue(void *const *arguments, cudaStream_t stream) override {
    auto handle = cudnnHandleOf(cuda, library, stream);
    if (!handle)
      return handle.error();
    const float one = 1, zero = 0;
    return inCudnnKernel(desc, checkCudnn(library,
                                          library.cudnnPoolingForward(*handle, pooling, &one, data, arguments[0], &zero,
                                                                      result, arguments[1]),
                                          "cudnnPoolingForward"));
  }

private:
  const CudaRuntime &cuda;
  const Cudnn &library;
  LibraryKernelDesc desc;
  CudnnTensor data, result;
  CudnnDescriptor<cudnnPoolingDescriptor_t> pooling;
};

} // namespace

Expected<std::unique_ptr<CudaLibraryKernel>> loadCudnnPooling(const CudaRuntime &cuda, const Cudnn &library,
                                                              const LibraryKernelDesc &desc) {
  auto problem = readCudnnPooling(desc);
  if (!problem)
    return problem.error();
  auto kernel = std::make_unique<PoolingKernel>(cuda, library, desc);
  if (Error error = kernel->load(*problem))
    return error;
  return std::unique_ptr<CudaLibraryKernel>(std::move(kernel));
}

Expected<std::unique_ptr<CudaLibraryKernel>> loadCudnnKernel(const LibraryKernelDesc &desc) {
  auto cuda = cudaRuntime();
  if (!cuda)
    return cuda.error();
  auto library = cudaLibrary<Cudnn>();
  if (!library)
    return library.error();
  auto load = isCudnnConvolution(desc.operation) ? loadCudnnConvolution
              : isCudnnAttention(desc.operation) ? loadCudnnAttention
                                                 : loadCudnnPooling;
  auto kernel = load(**cuda, **library, desc);
  if (!kernel)
    return inCudnnKernel(desc, kernel.error());
  return kernel;
}

} // namespace cleave::runtime
