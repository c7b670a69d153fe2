// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies of rows on a GPU to where they lie at another distance from each other, with zeros around them: so a product's
// matrices get sizes and addresses of which matrix units read 16 bytes at once.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAROWS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAROWS_H

#include "runtime/ElementType.h"
#include "runtime/drivers/cuda/CudaExecutable.h"

namespace cleave::runtime {

/// `rows` rows of `width` elements, in elements at these distances. The target gets `allRows` rows of `allWidth`, zeros
/// where the source has none.
struct CudaRowsDesc {
  uint64_t rows = 0, width = 0, sourceDistance = 0, targetDistance = 0, allRows = 0, allWidth = 0;
};

class CudaRows {
public:
  CudaRows() = default;
  /// The copy of rows of elements of 2 or 4 bytes, for the current GPU; all of a process share the code.
  static Expected<CudaRows> load(const CudaRuntime &cuda, ElementType element);

  /// Puts a copy on the stream; can be captured. Both addresses are multiples of an element's size, and what they lead
  /// to does not overlap.
  Error enqueue(const void *source, void *target, const CudaRowsDesc &desc, cudaStream_t stream) const;

private:
  const CudaRuntime *cuda = nullptr;
  std::shared_ptr<const CudaModule> code;
  cudaKernel_t kernel = nullptr;
  uint64_t bytes = 0; ///< of an element
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAROWS_H
