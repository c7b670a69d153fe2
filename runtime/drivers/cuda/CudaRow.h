// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the kernels of Rows.cu divide their work. Included by both sides.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAROW_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAROW_H

namespace cleave::runtime {

/// Threads of a block, and vectors of 16 bytes of a row that it copies at a time.
inline constexpr unsigned cudaRowThreads = 256, cudaRowPiece = 512;

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAROW_H
