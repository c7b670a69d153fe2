// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies rows to where they lie at another distance, with zeros behind them. All parameters are of 64 bits. Grids have one
// dimension; whatever their size, all rows are done.

#include "CudaRow.h"

#include <stdint.h>

using cleave::runtime::cudaRowPiece;
using cleave::runtime::cudaRowThreads;

namespace {

/// The 16 bytes from byte `offset` of two vectors that follow each other.
__device__ uint4 shifted(uint4 low, uint4 high, unsigned offset) {
  if (offset & 8)
    low = {low.z, low.w, high.x, high.y}, high = {high.z, high.w, 0, 0};
  if (offset & 4)
    low = {low.y, low.z, low.w, high.x}, high.x = high.y;
  unsigned bits = (offset & 3) * 8;
  return {__funnelshift_r(low.x, low.y, bits), __funnelshift_r(low.y, low.z, bits),
          __funnelshift_r(low.z, low.w, bits), __funnelshift_r(low.w, high.x, bits)};
}

/// A vector of 16 bytes of the target's memory, of which elements from `first` on are a row's; `first` is negative where
/// the row begins within it. Vectors that lie within the row are read in vectors too, although rows begin anywhere.
template <typename Element> struct Vector {
  static constexpr int64_t elements = sizeof(uint4) / sizeof(Element);

  int64_t first;
  bool isWhole = false;
  unsigned offset = 0;
  uint4 low = {}, high = {};

  __device__ void load(const Element *from, int64_t filled) {
    auto place = reinterpret_cast<const char *>(from + first);
    offset = reinterpret_cast<uintptr_t>(place) % sizeof(uint4);
    int64_t before = offset / sizeof(Element), behind = offset ? 2 * elements - before : elements;
    isWhole = first >= before && first + behind <= filled;
    if (!isWhole)
      return;
    auto vectors = reinterpret_cast<const uint4 *>(place - offset);
    low = vectors[0];
    if (offset)
      high = vectors[1];
  }
  __device__ void store(const Element *from, Element *to, int64_t filled, int64_t width) const {
    if (isWhole) {
      *reinterpret_cast<uint4 *>(to + first) = offset ? shifted(low, high, offset) : low;
      return;
    }
    for (int64_t at = first < 0 ? 0 : first; at < first + elements && at < width; ++at)
      to[at] = at < filled ? from[at] : Element(0);
  }
};

/// A block writes pieces of rows: each thread some vectors that lie a block apart, all of them read before one is
/// written, so that enough is on its way.
template <typename Element>
__device__ void copyRows(const Element *source, Element *target, uint64_t rows, uint64_t width, uint64_t sourceDistance,
                         uint64_t targetDistance, uint64_t allRows, uint64_t allWidth) {
  constexpr unsigned perThread = cudaRowPiece / cudaRowThreads;
  constexpr int64_t elements = Vector<Element>::elements;
  // One more than fit, as a row's ends may lie in vectors of their own.
  uint64_t vectors = (allWidth + elements - 1) / elements + 1, pieces = (vectors + cudaRowPiece - 1) / cudaRowPiece;
  for (uint64_t piece = blockIdx.x; piece < allRows * pieces; piece += gridDim.x) {
    uint64_t row = piece / pieces, number = (piece - row * pieces) * cudaRowPiece + threadIdx.x;
    int64_t filled = row < rows ? width : 0;
    const Element *from = source + row * sourceDistance;
    Element *to = target + row * targetDistance;
    int64_t before = reinterpret_cast<uintptr_t>(to) % sizeof(uint4) / sizeof(Element);
    Vector<Element> values[perThread];
#pragma unroll
    for (unsigned i = 0; i != perThread; ++i) {
      values[i].first = static_cast<int64_t>(number + i * cudaRowThreads) * elements - before;
      values[i].load(from, filled);
    }
#pragma unroll
    for (unsigned i = 0; i != perThread; ++i)
      values[i].store(from, to, filled, allWidth);
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
