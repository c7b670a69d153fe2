// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ways in which cuBLASLt and kernels of our own compute a product together. Which is the fastest is measured.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTWAYS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTWAYS_H

#include "runtime/drivers/cuda/CudaEpilogue.h"
#include "runtime/drivers/cuda/CudaRows.h"
#include "runtime/drivers/cuda/rules/CublasProblem.h"

#include <vector>

namespace cleave::runtime {

/// What cuBLASLt does, and what is left to do behind it.
struct CublasLtWay {
  CublasProblem problem;
  CudaEpilogueDesc rest;
  /// Some of the matrices are copies in the workspace (CublasProblem::aligned).
  bool isAligned = false;
};

/// All ways, in the order in which they are tried: that with the least left first; last, where a workspace of
/// `scratchBytes` has room for copies, the product of these with all else left.
std::vector<CublasLtWay> cublasLtWays(const CublasProblem &problem, uint64_t scratchBytes);

/// The copy of an operand to a larger matrix with zeros around it, and of the result back from one.
CudaRowsDesc rowsOfOperand(const CublasMatrix &operand, const CublasMatrix &copy);
CudaRowsDesc rowsOfResult(const CublasMatrix &copy, const CublasMatrix &result);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUBLASLTWAYS_H
