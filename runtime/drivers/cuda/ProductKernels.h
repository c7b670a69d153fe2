// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of our own around the products that a convolution with a window of one element is (Products.cu).

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_PRODUCTKERNELS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_PRODUCTKERNELS_H

#include "runtime/ElementType.h"
#include "runtime/drivers/cuda/CudaExecutable.h"

#include <array>

namespace cleave::runtime {

/// Which elements of data the window of one element meets: in each of three spatial dimensions, element i of what it
/// leads to is element i * stride of the data. Tensors are dense, with fewer than 2^31 elements.
struct WindowSteps {
  uint64_t planes = 1; ///< samples times channels
  std::array<uint64_t, 3> compact = {1, 1, 1}, data = {1, 1, 1}, strides = {1, 1, 1};

  uint64_t compactElements() const { return planes * compact[0] * compact[1] * compact[2]; }
  uint64_t dataElements() const { return planes * data[0] * data[1] * data[2]; }
  /// Whether some elements are passed over.
  bool leavesOut() const { return compact != data; }
};

class ProductKernels {
public:
  ProductKernels() = default;
  /// For the current GPU; all of a process share the code. `element`: F32 or BF16, of the data and of sums.
  static Expected<ProductKernels> load(const CudaRuntime &cuda, ElementType element);

  // Put their work on the stream; can be captured.
  /// What the window meets, without what is between.
  Error gather(void *compact, const void *data, const WindowSteps &steps, cudaStream_t stream) const;
  /// The other way round, with zeros between.
  Error spread(void *data, const void *compact, const WindowSteps &steps, cudaStream_t stream) const;
  /// result [count], of the element type, as the sums of partial [parts, count] of float32, in order.
  Error sum(void *result, const void *partial, uint64_t count, uint64_t parts, cudaStream_t stream) const;

private:
  Error launch(cudaKernel_t kernel, std::span<uint64_t> values, uint64_t elements, cudaStream_t stream) const;
  Error step(cudaKernel_t kernel, void *to, const void *from, uint64_t count, const WindowSteps &steps,
             cudaStream_t stream) const;

  const CudaRuntime *cuda = nullptr;
  std::shared_ptr<const CudaModule> code;
  cudaKernel_t gatherKernel = nullptr, spreadKernel = nullptr, sumKernel = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_PRODUCTKERNELS_H
