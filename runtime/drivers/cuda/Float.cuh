// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element types of floats in memory, computed with as float32: the driver's own kernels.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_FLOAT_CUH
#define CLEAVE_RUNTIME_DRIVERS_CUDA_FLOAT_CUH

#include <cstdint>
#include <cuda_fp16.h>

namespace {

struct Float16 {
  using Stored = __half;
  using Value = float;
  __device__ static Value load(Stored stored) { return __half2float(stored); }
  __device__ static Stored store(Value value) { return __float2half_rn(value); }
};

/// The upper half of a float, rounded to the nearest, ties to even; a NaN stays one.
struct BFloat16 {
  using Stored = uint16_t;
  using Value = float;
  __device__ static Value load(Stored stored) { return __uint_as_float(static_cast<uint32_t>(stored) << 16); }
  __device__ static Stored store(Value value) {
    uint32_t bits = __float_as_uint(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<Stored>(value != value ? (bits >> 16) | 0x40 : rounded);
  }
};

} // namespace

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_FLOAT_CUH
