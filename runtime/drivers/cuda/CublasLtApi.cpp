// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where cuBLASLt is, and what its status codes mean.

#include "runtime/drivers/cuda/CublasLtApi.h"

#include <array>

namespace cleave::runtime {

CudaLibraryFile CublasLt::file() {
  static constexpr std::array<const char *, 2> files = {"libcublasLt.so.13", "libcublasLt.so.12"};
  return {"cuBLASLt", files, "install the CUDA toolkit with cuBLAS, or set CUDA_PATH to where it is"};
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
