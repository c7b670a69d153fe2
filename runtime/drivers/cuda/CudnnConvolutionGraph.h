// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution as a graph of one operation of cuDNN's backend.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNCONVOLUTIONGRAPH_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNCONVOLUTIONGRAPH_H

#include "runtime/drivers/cuda/CudnnGraph.h"
#include "runtime/drivers/cuda/rules/CudnnProblem.h"

namespace cleave::runtime {

/// The tensors' numbers in the graph.
inline constexpr int64_t cudnnDataNumber = 1, cudnnWeightsNumber = 2, cudnnResultNumber = 3;

/// `adds`: what is computed is added to what lies there. The device is as for CudnnGraph::make.
Expected<CudnnGraph> makeConvolutionGraph(const Cudnn &library, const CudnnConvolution &problem, bool adds,
                                          cudnnHandle_t handle, const CudnnBackendObject *properties = nullptr);

/// Whether an engine's sums are as exact as sums of products in the problem's arithmetic, as routines' have to be
/// (docs/rationale/kernels-for-gpus.md).
bool isExact(const CudnnEngineNotes &notes, const CudnnConvolution &problem);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNCONVOLUTIONGRAPH_H
