// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What follows a product or a convolution where the library has no routine that does both: additions and an activation
// over the result, in place. All parameters are of 64 bits. Grids have one dimension; whatever their size, all elements
// are done.

#include "Float.cuh"

namespace {

struct Float32 {
  using Stored = float;
  __device__ static float load(Stored stored) { return stored; }
  __device__ static Stored store(float value) { return value; }
};

/// The inner function of the tanh form of GELU, twice, since x (1 + tanh u) / 2 is x / (1 + exp(-2 u)).
__device__ float twiceInner(float x) { return 1.5957691216057308f * (x + 0.044715f * x * x * x); }

// What comes of a value; `saved` is the saved argument of a function whose gradient is taken.
struct None {
  __device__ static float of(float value, float) { return value; }
};
struct Relu {
  __device__ static float of(float value, float) { return value < 0 ? 0 : value; }
};
struct Gelu {
  __device__ static float of(float value, float) { return value / (1 + expf(-twiceInner(value))); }
};
struct GeluGradient {
  __device__ static float of(float value, float x) {
    // The difference to 1 would lose digits.
    float part = 1 / (1 + expf(-twiceInner(x))), other = 1 / (1 + expf(twiceInner(x)));
    float bend = part * other, slope = 1.5957691216057308f * (1 + 3 * 0.044715f * x * x);
    // Where the function is flat its slope may be infinite.
    return value * (part + (bend == 0 ? 0 : x * bend * slope));
  }
};

template <typename Element, typename Activation, bool readsSaved>
__device__ void run(typename Element::Stored *result, const typename Element::Stored *bias,
                    const typename Element::Stored *added, const typename Element::Stored *saved, uint64_t count,
                    uint64_t channels, uint64_t inner, uint64_t scaleBits) {
  float scale = __uint_as_float(static_cast<uint32_t>(scaleBits));
  uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  // Division by 32 bits is several times faster.
  bool isSmall = count <= 0xffffffffu;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    float value = Element::load(result[i]);
    if (bias) {
      uint64_t channel = isSmall
                             ? static_cast<uint32_t>(i) / static_cast<uint32_t>(inner) % static_cast<uint32_t>(channels)
                             : i / inner % channels;
      value += Element::load(bias[channel]);
    }
    if (added)
      value += scale * Element::load(added[i]);
    result[i] = Element::store(Activation::of(value, readsSaved ? Element::load(saved[i]) : 0));
  }
}

} // namespace

#define CLEAVE_EPILOGUE(element, activation, Element, Activation, readsSaved)                                          \
  extern "C" __global__ void cleave_epilogue_##element##_##activation(                                                 \
      Element::Stored *result, const Element::Stored *bias, const Element::Stored *added,                              \
      const Element::Stored *saved, uint64_t count, uint64_t channels, uint64_t inner, uint64_t scaleBits) {           \
    run<Element, Activation, readsSaved>(result, bias, added, saved, count, channels, inner, scaleBits);               \
  }
#define CLEAVE_EPILOGUES(element, Element)                                                                             \
  CLEAVE_EPILOGUE(element, none, Element, None, false)                                                                 \
  CLEAVE_EPILOGUE(element, relu, Element, Relu, false)                                                                 \
  CLEAVE_EPILOGUE(element, gelu_tanh, Element, Gelu, false)                                                            \
  CLEAVE_EPILOGUE(element, gelu_tanh_gradient, Element, GeluGradient, true)

CLEAVE_EPILOGUES(f32, Float32)
CLEAVE_EPILOGUES(bf16, BFloat16)
