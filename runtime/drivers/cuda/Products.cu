// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What surrounds the products that stand for a convolution with a window of one element: data taken with a stride, and
// the sum of what samples give. All parameters are of 64 bits; tensors have fewer than 2^31 elements. Grids have one
// dimension; whatever their size, all elements are done.

#include "Float.cuh"

namespace {

struct Float32 {
  using Stored = float;
  __device__ static Stored store(float value) { return value; }
};

__device__ uint32_t firstElement() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ uint32_t stepOfElements() { return gridDim.x * blockDim.x; }

/// compact [planes, c0, c1, c2] = data [planes, d0, d1, d2] at the multiples of the strides.
template <typename Bits>
__device__ void gather(Bits *compact, const Bits *data, uint32_t count, uint32_t c0, uint32_t c1, uint32_t c2,
                       uint32_t d0, uint32_t d1, uint32_t d2, uint32_t s0, uint32_t s1, uint32_t s2) {
  for (uint32_t i = firstElement(); i < count; i += stepOfElements()) {
    uint32_t rest = i, i2 = rest % c2;
    rest /= c2;
    uint32_t i1 = rest % c1;
    rest /= c1;
    uint32_t i0 = rest % c0, plane = rest / c0;
    compact[i] = data[((plane * d0 + i0 * s0) * d1 + i1 * s1) * d2 + i2 * s2];
  }
}

/// The way back: zero elsewhere.
template <typename Bits>
__device__ void spread(Bits *data, const Bits *compact, uint32_t count, uint32_t c0, uint32_t c1, uint32_t c2,
                       uint32_t d0, uint32_t d1, uint32_t d2, uint32_t s0, uint32_t s1, uint32_t s2) {
  for (uint32_t i = firstElement(); i < count; i += stepOfElements()) {
    uint32_t rest = i, i2 = rest % d2;
    rest /= d2;
    uint32_t i1 = rest % d1;
    rest /= d1;
    uint32_t i0 = rest % d0, plane = rest / d0;
    bool isThere = i0 % s0 == 0 && i1 % s1 == 0 && i2 % s2 == 0;
    data[i] = isThere ? compact[((plane * c0 + i0 / s0) * c1 + i1 / s1) * c2 + i2 / s2] : Bits(0);
  }
}

/// result [count] = the sum of partial [parts, count], in order.
template <typename Element>
__device__ void sum(typename Element::Stored *result, const float *partial, uint32_t count, uint64_t parts) {
  for (uint32_t i = firstElement(); i < count; i += stepOfElements()) {
    float value = partial[i];
#pragma unroll 4
    for (uint64_t part = 1; part < parts; ++part)
      value += partial[part * count + i];
    result[i] = Element::store(value);
  }
}

} // namespace

#define CLEAVE_STEPS(name, element, Bits)                                                                              \
  extern "C" __global__ void cleave_##name##_##element(Bits *to, const Bits *from, uint64_t count, uint64_t c0,        \
                                                       uint64_t c1, uint64_t c2, uint64_t d0, uint64_t d1,             \
                                                       uint64_t d2, uint64_t s0, uint64_t s1, uint64_t s2) {           \
    name(to, from, count, c0, c1, c2, d0, d1, d2, s0, s1, s2);                                                         \
  }
#define CLEAVE_PRODUCTS(element, Bits, Element)                                                                        \
  CLEAVE_STEPS(gather, element, Bits)                                                                                  \
  CLEAVE_STEPS(spread, element, Bits)                                                                                  \
  extern "C" __global__ void cleave_sum_##element(Element::Stored *result, const float *partial, uint64_t count,       \
                                                  uint64_t parts) {                                                    \
    sum<Element>(result, partial, count, parts);                                                                       \
  }

CLEAVE_PRODUCTS(f32, uint32_t, Float32)
CLEAVE_PRODUCTS(bf16, uint16_t, BFloat16)
