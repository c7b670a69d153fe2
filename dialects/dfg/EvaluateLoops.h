// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over tensors in the compiler's memory, and the C++ types of their elements: what all evaluations share.

#ifndef CLEAVE_DIALECTS_DFG_EVALUATELOOPS_H
#define CLEAVE_DIALECTS_DFG_EVALUATELOOPS_H

#include "dialects/interfaces/HostTensor.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <cstring>

namespace cleave::dfg {

/// Strides in elements, one a dimension.
using Strides = llvm::SmallVector<int64_t, 6>;

/// The strides of a dense row-major tensor.
Strides denseStrides(llvm::ArrayRef<int64_t> shape);

/// The strides with which a dense tensor of `shape` is read when it is broadcast to `target` by NumPy's rule.
Strides broadcastStrides(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> target);

/// One nest of loops that walks several arrays at once, each with its own strides. Neighbouring dimensions that all
/// arrays pass evenly are joined, so that the innermost loop is as long as possible.
class StridedLoop {
public:
  StridedLoop(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Strides> arrays);

  /// The stride of the innermost loop in an array.
  int64_t innerStride(size_t array) const { return strides[array].back(); }

  /// Calls `body(offsets, count)` for every run of the innermost loop; `offsets` holds one element offset an array.
  template <typename Body> void run(Body body) const {
    if (llvm::is_contained(sizes, 0))
      return;
    size_t outer = sizes.size() - 1;
    llvm::SmallVector<int64_t, 6> index(outer, 0), offsets(strides.size(), 0);
    while (true) {
      body(llvm::ArrayRef<int64_t>(offsets), sizes[outer]);
      size_t dim = outer;
      for (; dim > 0; --dim) {
        bool more = ++index[dim - 1] < sizes[dim - 1];
        int64_t step = more ? 1 : 1 - sizes[dim - 1];
        for (size_t array = 0; array < strides.size(); ++array)
          offsets[array] += step * strides[array][dim - 1];
        if (more)
          break;
        index[dim - 1] = 0;
      }
      if (dim == 0)
        return;
    }
  }

private:
  llvm::SmallVector<int64_t, 6> sizes;
  llvm::SmallVector<Strides, 4> strides;
};

/// Bytes of an element as HostTensor stores it.
int64_t elementWidth(mlir::Type elementType);

/// Copies elements of `width` bytes from one strided place to another.
void copyStrided(const char *source, const Strides &sourceStrides, char *target, const Strides &targetStrides,
                 llvm::ArrayRef<int64_t> shape, int64_t width);

/// Calls `body` with a value of the C++ type that stores and computes elements of `type`: float, double, int8_t to
/// int64_t, uint8_t to uint64_t, or bool. Returns false for other types; f16 and bf16 are widened before (see `widen`).
template <typename Body> bool withElementType(mlir::Type type, Body body) {
  if (type.isF32())
    return body(float());
  if (type.isF64())
    return body(double());
  if (type.isInteger(1))
    return body(bool());
  bool hasNoSign = type.isUnsignedInteger();
  if (type.isInteger(8))
    return hasNoSign ? body(uint8_t()) : body(int8_t());
  if (type.isInteger(16))
    return hasNoSign ? body(uint16_t()) : body(int16_t());
  if (type.isInteger(32))
    return hasNoSign ? body(uint32_t()) : body(int32_t());
  if (type.isInteger(64))
    return hasNoSign ? body(uint64_t()) : body(int64_t());
  return false;
}

/// The tensor with f16 and bf16 elements as f32; other tensors as they are.
HostTensor widen(const HostTensor &tensor);

/// The tensor with elements rounded to `elementType` (f16 or bf16, from f32 or f64); other tensors as they are.
HostTensor narrow(const HostTensor &tensor, mlir::Type elementType);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_EVALUATELOOPS_H
