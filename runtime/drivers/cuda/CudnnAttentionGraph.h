// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradient as graphs of operations of cuDNN's backend, in the form in which its fused engines
// recognize them: scores are in no memory but theirs.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNATTENTIONGRAPH_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNATTENTIONGRAPH_H

#include "runtime/drivers/cuda/CudnnGraph.h"
#include "runtime/drivers/cuda/rules/CudnnAttention.h"

namespace cleave::runtime {

/// The tensors' numbers in a graph. The last three are numbers of float32 on the host, which are read when a plan is
/// executed.
enum class CudnnAttentionTensor : int64_t {
  Queries = 1,
  Keys,
  Values,
  Result,
  LogSums,
  ResultGradient,
  QueriesGradient,
  KeysGradient,
  ValuesGradient,
  RowSums,     ///< of a gradient: [batch, head, query, 1] in float32
  Accumulated, ///< of a gradient that is not repeatable: that of the queries in float32, dense
  Scale,
  Hidden, ///< the score of what is hidden; where something is
  One,    ///< of a gradient: 1
};

/// The device is as for CudnnGraph::make.
Expected<CudnnGraph> makeAttentionGraph(const Cudnn &library, const CudnnAttention &problem, cudnnHandle_t handle,
                                        const CudnnBackendObject *properties = nullptr);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDNNATTENTIONGRAPH_H
