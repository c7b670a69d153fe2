// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where cuBLASLt is, and what its status codes mean.

#include "runtime/drivers/cuda/CublasLtApi.h"

#include <dlfcn.h>

namespace cleave::runtime {

/// It knows which CUDA it is for; what the driver is for knows the CUDA runtime.
static CudaLibraryFile::Versions versionsOf(void *handle) {
  CudaLibraryFile::Versions versions;
  auto own = reinterpret_cast<decltype(&::cublasLtGetCudartVersion)>(dlsym(handle, "cublasLtGetCudartVersion"));
  if (own)
    versions.library = static_cast<int>(own());
  // Tests replace the runtime by tables that may lack it.
  auto cuda = cudaRuntime();
  if (!cuda || !(*cuda)->cudaDriverGetVersion || (*cuda)->cudaDriverGetVersion(&versions.driver) != cudaSuccess)
    versions.driver = 0;
  return versions;
}

CudaLibraryFile CublasLt::file() {
  static const CudaFileNames names("libcublasLt.so.");
  return {"cuBLASLt", names.list(), "install the CUDA toolkit with cuBLAS, or set CUDA_PATH to where it is",
          versionsOf};
}

Error checkCublasLt(const CublasLt &library, cublasStatus_t code, const char *routine) {
  if (code == CUBLAS_STATUS_SUCCESS)
    return Error::success();
  Status status = code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_ARCH_MISMATCH ? Status::Unsupported
                  : code == CUBLAS_STATUS_ALLOC_FAILED                                       ? Status::Infeasible
                                                                                             : Status::Failure;
  return makeError(status, routine, ": ", library.cublasLtGetStatusString(code), " (status ", static_cast<int>(code),
                   ")");
}

} // namespace cleave::runtime
