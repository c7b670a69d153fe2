// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPUs of this machine, and which of them stands for which device of a plan. Several devices may share one.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAGPUS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAGPUS_H

#include "runtime/drivers/cuda/CudaApi.h"

#include <cstdint>

namespace cleave::runtime {

/// Device number i of a plan is on GPU i modulo the number of GPUs; the environment variable CLEAVE_GPUS, as "0,0,1",
/// is a list of GPUs that are taken in turns instead.
class CudaGpus {
public:
  /// Status::Infeasible without a GPU or its driver, Status::Usage when CLEAVE_GPUS names GPUs that there are not.
  static Expected<CudaGpus> find(const CudaRuntime &cuda);

  int of(uint32_t device) const { return order[device % order.size()]; }
  /// Has kernels on the one GPU reach memory of the other; whether they can. CUDA numbers GPUs from 0.
  Expected<bool> connect(int from, int to) const;
  /// Whether the GPU runs code for `chip` ("sm_90"): Status::Infeasible when it does not.
  Error checkChip(int gpu, const std::string &chip) const;
  /// As people call it: "GPU 0 (NVIDIA H100)".
  std::string name(int gpu) const;

private:
  explicit CudaGpus(const CudaRuntime &cuda) : cuda(&cuda) {}
  Error readOrder(const std::string &text, int count);

  const CudaRuntime *cuda;
  std::vector<int> order;
};

/// "NVIDIA H100 80GB HBM3"; "" where CUDA does not say. Asked for once, since that takes milliseconds. Thread-safe.
std::string productName(const CudaRuntime &cuda, int gpu);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAGPUS_H
