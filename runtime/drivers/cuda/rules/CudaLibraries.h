// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel libraries of NVIDIA GPUs, as the compiler asks them: cuBLASLt for products of matrices, cuDNN for
// convolutions and poolings. The answers follow from rules alone, so that a plan is made where there is neither a GPU
// nor CUDA; which algorithm computes a kernel is measured when the plan is loaded.
//
//   matmul               "cublaslt", within CublasProblem.h's rules
//   convolution, deconvolution, convolution_weights, pooling.*
//                        "cudnn", within CudnnProblem.h's rules
//   all others           refused: kernels of our own move data through memory once, too, and join others
//
// Everything is dense and row-major; of a product the operands may lie transposed.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDALIBRARIES_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDALIBRARIES_H

#include "runtime/KernelLibrary.h"

namespace cleave::runtime {

const KernelLibrary &cudaLibraries();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDALIBRARIES_H
