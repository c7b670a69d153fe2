// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of cuBLASLt that the driver calls, loaded at the first use.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTAPI_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTAPI_H

#include "runtime/drivers/cuda/CudaApi.h"

#include <cublasLt.h>

namespace cleave::runtime {

// clang-format off
#define CLEAVE_CUBLASLT_FUNCTIONS(X)                                                                                   \
  X(cublasLtCreate)                                                                                                    \
  X(cublasLtGetStatusString)                                                                                           \
  X(cublasLtGetVersion)                                                                                                \
  X(cublasLtMatmul)                                                                                                    \
  X(cublasLtMatmulAlgoCheck)                                                                                           \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                                    \
  X(cublasLtMatmulDescCreate)                                                                                          \
  X(cublasLtMatmulDescDestroy)                                                                                         \
  X(cublasLtMatmulDescSetAttribute)                                                                                    \
  X(cublasLtMatmulPreferenceCreate)                                                                                    \
  X(cublasLtMatmulPreferenceDestroy)                                                                                   \
  X(cublasLtMatmulPreferenceSetAttribute)                                                                              \
  X(cublasLtMatrixLayoutCreate)                                                                                        \
  X(cublasLtMatrixLayoutDestroy)                                                                                       \
  X(cublasLtMatrixLayoutSetAttribute)
// clang-format on

/// cuBLASLt.
CLEAVE_FUNCTIONS(CublasLt, CLEAVE_CUBLASLT_FUNCTIONS)

/// Success, or a failure that names the routine and cuBLASLt's text for `code`.
Error checkCublasLt(const CublasLt &library, cublasStatus_t code, const char *routine);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTAPI_H
