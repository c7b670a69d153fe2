// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies rows to where they lie at another distance, with zeros behind them. All parameters are of 64 bits. Grids have one
// dimension; whatever their size, all rows are done.

#include "CudaRow.h"

#include <stdint.h>

using cleave::runtime::cudaRowPiece;
using cleave::runtime::cudaRowThreads;

namespace {

/// A block writes pieces of rows: each thread some elements that lie a block apart, all of them read before one is
/// written, so that enough is on its way although an element is read alone: rows begin anywhere.
template <typename Element>
__device__ void copyRows(const Element *source, Element *target, uint64_t rows, uint64_t width, uint64_t sourceDistance,
                         uint64_t targetDistance, uint64_t allRows, uint64_t allWidth) {
  constexpr unsigned perThread = cudaRowPiece / cudaRowThreads;
  uint64_t pieces = (allWidth + cudaRowPiece - 1) / cudaRowPiece;
  for (uint64_t piece = blockIdx.x; piece < allRows * pieces; piece += gridDim.x) {
    uint64_t row = piece / pieces, first = (piece - row * pieces) * cudaRowPiece + threadIdx.x;
    uint64_t filled = row < rows ? width : 0;
    const Element *from = source + row * sourceDistance;
    Element *to = target + row * targetDistance;
    Element values[perThread];
#pragma unroll
    for (unsigned i = 0; i != perThread; ++i)
      values[i] = first + i * cudaRowThreads < filled ? from[first + i * cudaRowThreads] : Element(0);
#pragma unroll
    for (unsigned i = 0; i != perThread; ++i)
      if (first + i * cudaRowThreads < allWidth)
        to[first + i * cudaRowThreads] = values[i];
  }
}

} // namespace

#define CLEAVE_ROWS(bytes, Element)                                                                                    \
  extern "C" __global__ void __launch_bounds__(cudaRowThreads) cleave_rows_##bytes(                                    \
      const Element *source, Element *target, uint64_t rows, uint64_t width, uint64_t sourceDistance,                  \
      uint64_t targetDistance, uint64_t allRows, uint64_t allWidth) {                                                  \
    copyRows<Element>(source, target, rows, width, sourceDistance, targetDistance, allRows, allWidth);                 \
  }
CLEAVE_ROWS(2, uint16_t)
CLEAVE_ROWS(4, uint32_t)
